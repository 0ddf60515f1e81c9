"""The turing decoder: in time, among the candidates, early where it is sure."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import Lead, Packet, SignalInfo
from decoders.dsp.leads import OCCIPITAL, SENSORIMOTOR, leads_over, plain_name
from decoders.dsp.spd import logarithm
from decoders.model import Model, ModelError
from decoders.turing.decoder import StoppingRule, TuringDecoder, _reaching, fit
from decoders.turing.imagery import CLASSES, TIMES_S, ImageryEvidence, change
from decoders.turing.imagery_training import Examples, _fit, classifier_of, examples_of
from replay.model.recording import ArrayBlock, Recording
from tests.decoders.laws import CAUSAL, broken
from tracks.turing import TASKS_OF_BEHAVIOUR

pytestmark = pytest.mark.slow

RATE = 250
LEADS = tuple(Lead(name) for name in ("C3", "Cz", "C4", "POz", "O1", "Oz", "O2"))
INFO = SignalInfo("turing", "S01", float(RATE), LEADS, 10)
HZ = {3: 15.4, 4: 15.5, 5: 15.6, 6: 15.7}
OCCIPITAL_PLACES = slice(3, 7)


def signal(trials: list[tuple[int, int, int]], seconds: float, seed: int) -> NDArray[np.float32]:
    """Noise, with flicker over the occiput and a mu rhythm that falls against the imagined hand."""
    chance = np.random.default_rng(seed)
    n = int(seconds * RATE)
    x = chance.normal(0, 8, (n, len(LEADS)))
    t = np.arange(n) / RATE
    mu = np.column_stack([np.cos(2 * np.pi * 10.5 * t + p) for p in chance.uniform(0, 6, 2)]) * 12
    for at, _, task in trials:
        span = slice(at, at + 5 * RATE)
        time = np.arange(5 * RATE) / RATE
        if task in HZ:
            x[span, OCCIPITAL_PLACES] += 4 * np.cos(2 * np.pi * HZ[task] * (time - 0.14))[:, None]
        if task in (1, 2):
            mu[span, 2 - task] *= 0.2
    x[:, [0, 2]] += mu
    return np.asarray(x, dtype=np.float32)


def draw(n: int, seed: int, tasks: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(position, behaviour, task) of n trials, 13 s apart, anywhere in their packets."""
    chance = np.random.default_rng(seed)
    drawn = []
    for number in range(n):
        behaviour = int(chance.choice([1, 4, 5] if 5 in tasks else [1, 2, 3, 4]))
        allowed = [t for t in TASKS_OF_BEHAVIOUR[behaviour] if t in tasks]
        at = (13 * number + 9) * RATE + int(chance.integers(10))
        drawn.append((at, behaviour, int(chance.choice(allowed))))
    return drawn


def packets(
    x: NDArray[np.float32], trials: list[tuple[int, int, int]], n: int = 10
) -> Iterator[Packet]:
    for start in range(0, len(x), n):
        part = x[start : start + n]
        triggers = tuple((at - start, 8 * b) for at, b, _ in trials if start <= at < start + n)
        whole = np.column_stack([part, np.zeros(len(part), np.float32)])
        yield Packet(whole, triggers, start)


def play(
    decoder: TuringDecoder, x: NDArray[np.float32], trials: list[tuple[int, int, int]]
) -> list[tuple[int, int]]:
    """(end of the packet, task) of each report."""
    decoder.start(INFO)
    reported = []
    for packet in packets(x, trials):
        reported += [(packet.start + packet.n, task) for task in decoder.step(packet)]
    return reported


@pytest.fixture(scope="module")
def played() -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    trials = draw(10, seed=1, tasks=(3, 4, 5, 7))
    x = signal(trials, 10 * 13 + 6, seed=2)
    return trials, play(TuringDecoder(), x, trials)


def test_each_trial_is_reported_once_in_time_and_among_its_candidates(
    played: tuple[list[tuple[int, int, int]], list[tuple[int, int]]],
) -> None:
    trials, reported = played
    assert len(reported) == len(trials)
    for (at, behaviour, _), (end, task) in zip(trials, reported, strict=True):
        used = end - (at // 10 + 1) * 10
        assert 10 <= used < 5 * RATE
        assert task in TASKS_OF_BEHAVIOUR[behaviour]


def test_clear_flicker_is_named_early(
    played: tuple[list[tuple[int, int, int]], list[tuple[int, int]]],
) -> None:
    trials, reported = played
    flicker = [
        (truth == task, end - at)
        for (at, _, truth), (end, task) in zip(trials, reported, strict=True)
        if truth != 7
    ]
    assert np.mean([right for right, _ in flicker]) >= 0.8
    assert np.median([used for _, used in flicker]) < 4 * RATE


def test_noise_alone_is_reported_with_the_last_packet_that_is_valid() -> None:
    trials = [(9 * RATE + 3, 1, 7)]
    x = np.random.default_rng(0).normal(0, 8, (16 * RATE, len(LEADS))).astype(np.float32)
    decoder = TuringDecoder(tasks_of_behaviour={1: (3, 4)})
    ((end, _),) = play(decoder, x, trials)
    assert end - (trials[0][0] // 10 + 1) * 10 == 1240


def test_a_trial_cut_short_by_the_next_trigger_is_reported_with_its_packet() -> None:
    trials = [(9 * RATE, 1, 7), (11 * RATE, 1, 7)]
    x = np.random.default_rng(0).normal(0, 8, (17 * RATE, len(LEADS))).astype(np.float32)
    reported = play(TuringDecoder(tasks_of_behaviour={1: (3, 4)}), x, trials)
    assert [end for end, _ in reported] == [11 * RATE + 10, 11 * RATE + 10 + 1240]


def test_a_behaviour_without_tasks_begins_no_trial() -> None:
    x = np.random.default_rng(0).normal(0, 8, (16 * RATE, len(LEADS))).astype(np.float32)
    assert play(TuringDecoder(tasks_of_behaviour={2: (3, 4)}), x, [(9 * RATE, 1, 7)]) == []


@pytest.fixture(scope="module")
def model() -> Model:
    training = draw(30, seed=3, tasks=(1, 2))
    blocks = []
    for k in range(3):
        part = [(at - k * 130 * RATE, b, t) for at, b, t in training[k * 10 : k * 10 + 10]]
        coded = tuple((at, 8 * b + t) for at, b, t in part)
        blocks.append(ArrayBlock(signal(part, 140, seed=k), coded))
    recording = Recording("S01", float(RATE), LEADS, blocks)
    return fit([recording], seed=0, progress=lambda _: None)


def test_imagery_is_learned_from_imagery_recordings(model: Model) -> None:
    test = draw(6, seed=8, tasks=(1, 2))
    reported = play(TuringDecoder(model=model), signal(test, 84, seed=9), test)
    right = [task == truth for (_, _, truth), (_, task) in zip(test, reported, strict=True)]
    assert np.mean(right) >= 0.8
    assert classifier_of(model, "a unknown").leads == ("C3", "CZ", "C4")


def test_a_trained_decoder_keeps_the_laws(model: Model) -> None:
    trials = draw(2, seed=6, tasks=(1, 2, 3, 4))
    coded = tuple((at, 8 * b + t) for at, b, t in trials)
    block = ArrayBlock(signal(trials, 34, seed=7), coded)
    session = Recording("S01", float(RATE), LEADS, [block])
    assert broken("turing", lambda: TuringDecoder(model=model), session, CAUSAL) == []


def test_who_runs_it_without_a_model_is_told(model: Model) -> None:
    assert "Train one" in TuringDecoder().notice
    assert TuringDecoder(model=model).notice == ""


def test_features_that_mean_nothing_do_not_drown_the_one_that_does() -> None:
    """More features than trials: what suits blocks left out is a few main axes."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1, 2], 30)
    x = rng.normal(0, 1, (90, len(TIMES_S), 120))
    x[:, :, 0] += 4.0 * y[:, None]
    weights, bias = _fit(Examples(x, y, np.repeat(np.arange(6), 15)))
    new = rng.normal(0, 1, (90, 120))
    new[:, 0] += 4.0 * y
    for time in range(len(TIMES_S)):
        assert np.mean((new @ weights[time].T + bias[time]).argmax(axis=1) == y) >= 0.75


def test_training_without_imagery_shows_what_is_missing() -> None:
    block = ArrayBlock(np.zeros((1000, len(LEADS)), np.float32), ())
    recording = Recording("S01", float(RATE), LEADS, [block])
    with pytest.raises(TruthError, match="no trial of imagery"):
        examples_of(recording, ["C3", "C4"])


def test_a_model_of_another_shape_is_refused() -> None:
    arrays = {"weights": np.zeros((1, 2, 3, 4)), "bias": np.zeros((1, 2, 3))}
    model = Model("turing", "turing-phase", arrays, {"leads": ["C3"], "people": ["*"]})
    with pytest.raises(ModelError, match="weights of shape"):
        TuringDecoder(model=model).start(INFO)


def test_without_a_model_the_side_of_the_falling_rhythm_shows_the_hand() -> None:
    trials = draw(6, seed=4, tasks=(1, 2))
    x = signal(trials, 6 * 13 + 12, seed=5)
    evidence = ImageryEvidence(LEADS, float(RATE))
    position = 0
    for at, _, task in trials:
        evidence.push(x[position:at])
        evidence.begin()
        position = at + int((TIMES_S[-1] + 0.1) * RATE)
        evidence.push(x[at:position])
        assert CLASSES[int(np.argmax(evidence.log_probabilities))] == ("", "left", "right")[task]
        evidence.end()


def test_no_change_is_no_feature() -> None:
    covariance = np.diag([1.0, 2.0, 3.0])[None]
    assert change(logarithm(covariance), covariance) == pytest.approx(np.zeros(6))


def test_leads_are_found_by_name_and_all_are_taken_where_names_say_nothing() -> None:
    named = tuple(Lead(name) for name in ("Fc5.", "Oz..", "O1..", "Po3.", "ECG"))
    assert plain_name("EEG FC5-REF") == "FC5"
    assert leads_over(OCCIPITAL, named) == [1, 2, 3]
    assert leads_over(SENSORIMOTOR, tuple(Lead(f"ch{k}") for k in range(5))) == [0, 1, 2, 3, 4]


def test_who_is_sure_early_is_stopped_early_and_who_is_not_is_not() -> None:
    sure = np.tile([0.9, 0.1], (124, 1))
    sure[:10] = 0.5
    sure[10:, 0] = np.linspace(0.85, 0.999, 114)
    sure[:, 1] = 1 - sure[:, 0]
    unsure = np.column_stack([np.linspace(0.5, 0.97, 124), np.linspace(0.5, 0.03, 124)])
    thresholds = []
    for path in (sure, unsure):
        rule = StoppingRule(124, 0.04)
        for _ in range(40):
            rule.learn(path)
        thresholds.append(rule.threshold)
    assert thresholds[0] < thresholds[1]


def test_the_chance_of_a_block_rises_with_accuracy() -> None:
    chances = [_reaching(p) for p in (0.5, 0.7, 0.8, 0.9, 1.0)]
    assert chances == sorted(chances)
    assert chances[-1] == pytest.approx(1.0)
