"""The emotion decoder: one int a second, in the person's own units, for people never seen."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import TruthError
from bci_stream.packet import Lead, Packet, SignalInfo
from decoders.checks import check
from decoders.dsp.buffers import RunningScale
from decoders.emotion.decoder import NEUTRAL, EmotionDecoder, EmotionModel, standard_name
from decoders.emotion.features import BANDS_HZ, AffectFeatures, SecondCounter
from decoders.emotion.training import fit
from decoders.model import Model, ModelError
from decoders.offline import run_offline
from replay.model.recording import ArrayBlock, Recording
from tracks.emotion import CLASSES, CLIPS

pytestmark = pytest.mark.slow

RATE = 250
PAUSE = 100
NAMES = ("Fp1", "F3", "T7", "P7", "O1", "O2")
FIRST_CLIP = {label: min(n for n, (_, c) in CLIPS.items() if c == label) for label in CLASSES}


def person(seed: int, names: tuple[str, ...] = NAMES, clip_s: int = 12) -> Recording:
    """Each class makes another lead's rhythm of some band stronger; each person has other gains."""
    chance = np.random.default_rng(seed)
    gains = np.exp(chance.normal(0, 1, len(names)))
    order = [int(label) for label in chance.permutation(list(CLASSES))]
    parts = [chance.normal(0, 5, (RATE, len(names)))]
    triggers = [(3, 250), (11, 242)]
    at = RATE
    for label in order:
        n = clip_s * RATE
        low, high = BANDS_HZ[1 + label % 3]
        wave = np.cos(2 * np.pi * (low + high) / 2 * np.arange(n) / RATE + chance.uniform(0, 6))
        clip = chance.normal(0, 5, (n, len(names)))
        clip[:, label % len(names)] += (6 + 6 * (label // 3)) * wave
        triggers += [(at - 25, FIRST_CLIP[label]), (at, 240), (at + n - 1, 241)]
        parts += [clip, chance.normal(0, 5, (PAUSE, len(names)))]
        at += n + PAUSE
    triggers.append((at + RATE // 2, 243))
    parts.append(chance.normal(0, 5, (RATE, len(names))))
    block = ArrayBlock(np.asarray(np.concatenate(parts) * gains, np.float32), tuple(triggers))
    return Recording(f"P{seed}", float(RATE), tuple(Lead(name) for name in names), [block])


@pytest.fixture(scope="module")
def model() -> Model:
    return fit([person(seed) for seed in range(3)], seed=0, progress=lambda _: None)


def test_a_new_person_is_decoded_well_above_chance(model: Model) -> None:
    outcome = run_offline("emotion", EmotionDecoder(model=model), [person(10)])
    assert outcome.score > 0.35  # chance is 0.11
    assert all(type(e["result"]) is int for e in outcome.events if e["kind"] == "report")


def test_one_report_a_second_from_242_to_243(model: Model) -> None:
    outcome = run_offline("emotion", EmotionDecoder(model=model), [person(11)])
    reports = [e for e in outcome.events if e["kind"] == "report"]
    # The block begins with the packet after 242 (50) and ends with the packet that carries 243.
    begin, end = 50, (RATE + 9 * (12 * RATE + PAUSE) + RATE // 2) // 50 * 50 + 50
    assert len(reports) == (end - begin) // RATE


def test_the_first_batch_names_and_order_of_leads_are_the_same_to_it(model: Model) -> None:
    recording = person(12)
    old = {"T7": "T3", "P7": "T5"}
    order = [5, 4, 3, 2, 1, 0]
    leads = tuple(Lead(old.get(NAMES[i], NAMES[i])) for i in order)
    block = recording.blocks[0]
    turned = ArrayBlock(block.read(0, block.n_samples)[:, order].copy(), block.triggers)
    other = Recording(recording.subject, recording.rate, leads, [turned])
    reported = [
        run_offline("emotion", EmotionDecoder(model=model), [r]) for r in (recording, other)
    ]
    assert reported[0].score == pytest.approx(reported[1].score, abs=1e-9)


def test_a_missing_lead_is_survived(model: Model) -> None:
    outcome = run_offline("emotion", EmotionDecoder(model=model), [person(13, NAMES[:-1])])
    assert any(e["kind"] == "report" for e in outcome.events)


def test_without_a_model_every_second_is_neutral() -> None:
    outcome = run_offline("emotion", EmotionDecoder(), [person(14)])
    assert {e["result"] for e in outcome.events if e["kind"] == "report"} == {NEUTRAL}


def test_training_needs_all_nine_classes() -> None:
    recording = person(1)
    block = recording.blocks[0]
    triggers = block.triggers
    short = next(at for at, code in triggers if code == 241)
    cut = ArrayBlock(
        block.read(0, short + 2), (*(t for t in triggers if t[0] <= short), (short + 1, 243))
    )
    with pytest.raises(TruthError, match="no clip of"):
        fit([Recording("P1", 250.0, recording.leads, [cut])], seed=0, progress=lambda _: None)


def test_a_model_with_anything_wrong_is_refused_at_once(model: Model, spoilt_models) -> None:
    """None may fail later, in the middle of a run."""
    for name, wrong in spoilt_models(model):
        with pytest.raises(ModelError, match="Train it again"):
            pytest.fail(f"taken: {name}, {EmotionDecoder(model=wrong)}")


def test_trained_it_keeps_the_laws(model: Model) -> None:
    laws = check("emotion", lambda: EmotionDecoder(model=model), person(20, clip_s=4))
    assert [f"{law.name}: {law.detail}" for law in laws if not law.ok] == []


def test_entropy_rises_by_the_logarithm_of_the_gain() -> None:
    x = np.random.default_rng(0).normal(0, 10, (RATE * 4, 3))
    rows = []
    for gain in (1.0, 2.0):
        features = AffectFeatures(RATE, 3)
        features.push(gain * x)
        rows.append(features.take()[: 3 * len(BANDS_HZ)])
    assert rows[1] - rows[0] == pytest.approx(np.log(2.0), abs=0.05)


@given(rows=st.lists(st.floats(-100, 100), min_size=3, max_size=30))
@settings(max_examples=50, deadline=None)
def test_running_units_are_those_of_the_prior_and_the_rows_so_far(rows: list[float]) -> None:
    scale = RunningScale(np.array([1.0]), np.array([2.0]), prior_rows=4)
    for row in rows:
        scale.update(np.array([row]))
    n = 4 + len(rows)
    mean = (4 * 1.0 + sum(rows)) / n
    square = (4 * (4.0 + 1.0) + sum(row**2 for row in rows)) / n
    assert scale.mean[0] == pytest.approx(mean, abs=1e-6)
    assert scale.sd[0] == pytest.approx(np.sqrt(max(square - mean**2, 1e-12)), abs=1e-4)


def test_belief_stays_where_scores_say_nothing_and_sums_to_one() -> None:
    model = EmotionModel((), np.zeros(1), np.ones(1), np.zeros((9, 1)), np.zeros(9))
    belief = np.array([0.6, *([0.05] * 8)])
    later = model.update(belief, np.zeros(9))
    assert later.sum() == pytest.approx(1.0)
    assert 0.5 < later[0] < 0.6


@given(cuts=st.lists(st.integers(1, 1999), max_size=10))
@settings(max_examples=40, deadline=None)
def test_seconds_end_at_the_same_samples_for_any_cut(cuts: list[int]) -> None:
    def ends(bounds: list[int]) -> list[int]:
        seconds, found = SecondCounter(50), []
        for start, stop in pairwise(bounds):
            triggers = tuple(
                (at - start, c) for at, c in ((70, 242), (1700, 243)) if start <= at < stop
            )
            packet = Packet(np.zeros((stop - start, 2), np.float32), triggers, start)
            stretches = list(seconds.spans(packet))
            assert sum(s.end - s.begin for s in stretches) == stop - start
            found += [start + s.end for s in stretches if s.completes]
        return found

    assert ends([0, *sorted(set(cuts)), 2000]) == ends(list(range(0, 2001, 50)))


def test_other_names_of_leads() -> None:
    assert [standard_name(name) for name in ("T3", "T6", "Fp1", "Po3")] == [
        "T7",
        "P8",
        "FP1",
        "PO3",
    ]


def test_info_is_all_that_start_needs(model: Model) -> None:
    decoder = EmotionDecoder(model=model)
    decoder.start(SignalInfo("emotion", "P", 250.0, tuple(Lead(n) for n in NAMES), 50))
    assert decoder.step(Packet(np.zeros((50, 7), np.float32))) == []
