"""The ecog decoder: its leads, its rows, and a movement that it can follow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import TruthError
from bci_stream.packet import Lead, Packet, SignalInfo
from decoders.checks import check
from decoders.ecog.decoder import EcogDecoder
from decoders.ecog.features import FEATURES_A_LEAD, EcogFeatures, slow_features
from decoders.ecog.model import Kalman
from decoders.ecog.ridge import (
    HeldOutFold,
    RegressionMoments,
    fit_ridge,
    least_needed,
    pooled_score,
    usual_ridge,
)
from decoders.ecog.training import fit
from decoders.model import Model, ModelError
from decoders.offline import run_offline
from replay.model.recording import ArrayBlock, Recording

pytestmark = pytest.mark.slow

RATE = 1000
NAMES = tuple(f"ch{k}" for k in range(1, 7))


def walk(subject: str, seconds: int, seed: int, names: tuple[str, ...] = NAMES) -> Recording:
    """Steps modulate the high-gamma power of the first leads; the last lead is noise alone."""
    chance = np.random.default_rng(seed)
    n = seconds * RATE
    t = np.arange(n) / RATE
    phase = 2 * np.pi * np.cumsum(0.8 + 0.3 * np.sin(2 * np.pi * 0.05 * t)) / RATE
    joints = np.sin(phase[:, None] + np.linspace(0, 2, 8)) * np.arange(5, 13) + 90
    x = chance.normal(0, 20, (n, len(names)))
    carrier = chance.normal(0, 20, (n, 3))
    x[:, :3] += carrier * (1 + np.sin(phase[:, None] + np.array([0.3, 1.2, 2.4])))
    leads = tuple(Lead(name, "ECOG") for name in names)
    block = ArrayBlock(np.asarray(x, np.float32), ())
    return Recording(subject, float(RATE), leads, [block], joints[RATE // 200 - 1 :: RATE // 200])


@pytest.fixture(scope="module")
def model() -> Model:
    recordings = [walk("A", 40, 1), walk("B", 20, 2)]
    return fit(recordings, seed=0, progress=lambda _: None)


def test_movement_is_followed_and_every_packet_gets_its_eight_rows(model: Model) -> None:
    outcome = run_offline("ecog", EcogDecoder(model=model), [walk("B", 10, 3)])
    rows = [e["result"] for e in outcome.events if e["kind"] == "report"]
    assert len(rows) == 10 * 25
    assert {(len(r), len(r[0])) for r in rows} == {(8, 8)}
    assert outcome.score > 65


def test_a_subject_that_was_never_seen_is_decoded_with_the_teachers_weights(model: Model) -> None:
    assert model.settings["teacher"] == "A"
    unknown = run_offline("ecog", EcogDecoder(model=model), [walk("C", 10, 4)])
    assert unknown.score > 55


def test_without_a_model_it_reports_zeros() -> None:
    outcome = run_offline("ecog", EcogDecoder(), [walk("A", 1, 1)])
    rows = [e["result"] for e in outcome.events if e["kind"] == "report"]
    assert not np.any(rows)


def test_a_dead_lead_changes_little(model: Model) -> None:
    whole = walk("A", 10, 5)
    block = whole.blocks[0]
    data = block.read(0, block.n_samples).copy()
    data[:, 0] = np.nan
    dead = Recording("A", whole.rate, whole.leads, [ArrayBlock(data, ())], whole.angles)
    outcome = run_offline("ecog", EcogDecoder(model=model), [dead])
    assert np.isfinite([e["result"] for e in outcome.events if e["kind"] == "report"]).all()
    assert outcome.score > 45


def test_training_without_angles_is_refused() -> None:
    recording = walk("A", 1, 1)
    blind = Recording("A", recording.rate, recording.leads, recording.blocks)
    with pytest.raises(TruthError, match="no joint angles"):
        fit([blind], seed=0, progress=lambda _: None)


def test_training_on_less_than_a_second_is_refused() -> None:
    whole = walk("A", 1, 1)
    assert whole.angles is not None
    short = Recording("A", whole.rate, whole.leads, whole.blocks, whole.angles[:50])
    with pytest.raises(TruthError, match="at least 1 s"):
        fit([short], seed=0, progress=lambda _: None)


def test_leads_are_chosen_among_those_there_are(model: Model) -> None:
    names = [f"ch{k}" for k in range(1, 33)]
    info = SignalInfo("ecog", "A", 1000.0, tuple(Lead(n, "ECOG") for n in names), 40)
    chosen = list(EcogDecoder(model=model).choose(info, 24))
    assert len(set(chosen)) == 24
    assert set(range(1, 7)) <= set(chosen) <= set(range(1, 33))
    assert len(set(EcogDecoder().choose(info, 24))) == 24


def test_the_leads_that_are_dropped_first_are_those_that_carry_nothing() -> None:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(2000, 6))
    y = x[:, [2, 3]] @ np.array([[1.0], [0.5]]) + x[:, [4]] + 0.1 * chance.normal(size=(2000, 1))
    moments = RegressionMoments.of(x, y)
    assert least_needed(moments, group=2, keep=2) == [1, 2]


def test_weights_come_back_from_data_that_they_made() -> None:
    chance = np.random.default_rng(0)
    x = 5 + 3 * chance.normal(size=(20_000, 4))
    y = x @ np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [1.0, 1.0]]) + 7
    ridge = usual_ridge(RegressionMoments.of(x, y))
    limited = np.clip((x - x.mean(axis=0)) / x.std(axis=0), -4, 4)
    inside = np.abs(limited).max(axis=1) < 4
    corr = np.corrcoef(ridge.predict(x[inside])[:, 0], y[inside, 0])[0, 1]
    assert corr > 0.999


def test_score_from_moments_is_the_tracks_score() -> None:
    chance = np.random.default_rng(1)
    x = chance.normal(size=(300, 3)) + 2
    y = x @ chance.normal(size=(3, 2)) + chance.normal(size=(300, 2)) + 10
    ridge = usual_ridge(RegressionMoments.of(x[:200], y[:200]))
    out = RegressionMoments.of(x[200:], y[200:])
    found = pooled_score(
        HeldOutFold.of(out, ridge.scale).sums(ridge.weights), out.n, out.high - out.low
    )
    units = (x[200:] - ridge.scale.x_mean) / ridge.scale.x_sd
    p, t = ridge.scale.targets(units @ ridge.weights), y[200:]
    nrmse = np.sqrt(((p - t) ** 2).mean(axis=0)) / np.ptp(t, axis=0)
    corr = [np.corrcoef(p[:, j], t[:, j])[0, 1] for j in range(2)]
    assert found == pytest.approx(50 * (1 - nrmse.mean()) + 50 * np.mean(corr))


def test_a_teacher_helps_a_subject_with_little_data() -> None:
    chance = np.random.default_rng(2)
    true = chance.normal(size=(40, 1))
    x = chance.normal(size=(60, 40))
    y = x @ true + 3 * chance.normal(size=(60, 1))
    stretches = [RegressionMoments.of(x[k::3], y[k::3]) for k in range(3)]
    slow = np.zeros(40, dtype=np.bool_)
    teacher = true / np.linalg.norm(true)
    alone, _ = fit_ridge(stretches, slow)
    taught, choice = fit_ridge(stretches, slow, teacher)
    new = chance.normal(size=(500, 40))
    corr = [np.corrcoef(r.predict(new)[:, 0], (new @ true)[:, 0])[0, 1] for r in (alone, taught)]
    assert choice.trust > 0
    assert corr[1] > corr[0]


def test_a_smoothed_trace_is_nearer_to_the_truth() -> None:
    t = np.arange(4000) / 200
    truth = np.column_stack([np.sin(2 * np.pi * t), np.cos(2 * np.pi * 0.7 * t)])
    seen = truth + np.random.default_rng(0).normal(0, 0.5, truth.shape)
    smooth = Kalman.learn(truth, np.full(2, 0.25)).smooth(seen)[0]
    assert np.mean((smooth - truth) ** 2) < 0.2 * np.mean((seen - truth) ** 2)
    assert Kalman.none(2).smooth(seen)[0] == pytest.approx(seen)


@pytest.mark.parametrize("rate", [1000.0, 1375.0])
@given(cuts=st.lists(st.integers(1, 1999), max_size=8))
@settings(max_examples=15, deadline=None)
def test_features_are_the_same_for_any_cut(rate: float, cuts: list[int]) -> None:
    x = np.random.default_rng(3).normal(0, 20, (2000, 2))
    whole = EcogFeatures(rate, 2).step(x)
    features = EcogFeatures(rate, 2)
    pieces = [features.step(piece) for piece in np.split(x, sorted(set(cuts)))]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-9)
    assert whole.shape == (int(2000 * 200 / rate), 2 * FEATURES_A_LEAD)


def test_power_features_follow_power_and_slow_ones_do_not() -> None:
    x = np.random.default_rng(4).normal(0, 20, (3000, 1))
    rows = [EcogFeatures(1000.0, 1).step(gain * x)[-1] for gain in (1.0, np.e)]
    powers = ~slow_features()
    assert (rows[1] - rows[0])[powers] == pytest.approx(2.0, abs=0.01)


def test_a_model_with_anything_wrong_is_refused_at_once(model: Model, spoilt_models) -> None:
    """None may fail later, in the middle of a run."""
    for name, wrong in spoilt_models(model):
        with pytest.raises(ModelError, match="Train it again"):
            pytest.fail(f"taken: {name}, {EcogDecoder(model=wrong)}")


@pytest.mark.parametrize("subject", ["A", "unknown"])
def test_trained_it_keeps_the_laws(model: Model, subject: str) -> None:
    laws = check("ecog", lambda: EcogDecoder(model=model), walk(subject, 6, 7))
    assert [f"{law.name}: {law.detail}" for law in laws if not law.ok] == []


def test_rows_wait_until_a_packet_completes_one() -> None:
    decoder = EcogDecoder()
    decoder.start(SignalInfo("ecog", "A", 1000.0, (Lead("ch1", "ECOG"),), 40))
    assert decoder.step(Packet(np.zeros((3, 2), np.float32))) == []
    (rows,) = decoder.step(Packet(np.zeros((2, 2), np.float32), start=3))
    assert len(rows) == 1
