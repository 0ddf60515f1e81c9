"""Flicker evidence: right on what it models, silent on noise, and the same for any cut of the stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decoders.turing.correlation import CanonicalEvidence
from decoders.turing.ssvep import Demodulator, NarrowbandNoise, ResponseModel, Sample, SsvepDetector

RATE = 250.0
LEADS = 4
CLOSE_HZ = (15.4, 15.5, 15.6, 15.7)


def noise(seconds: float, seed: int) -> NDArray[np.float64]:
    chance = np.random.default_rng(seed)
    mixing = np.eye(LEADS) + 0.3 * chance.standard_normal((LEADS, LEADS))
    return chance.normal(0, 10, (int(seconds * RATE), LEADS)) @ mixing


def flicker(hz: float, seconds: float = 5.0, latency_s: float = 0.14) -> NDArray[np.float64]:
    t = np.arange(int(seconds * RATE)) / RATE
    wave = sum(np.cos(2 * np.pi * h * hz * (t - latency_s) + h) / h for h in (1, 2, 3))
    return np.asarray((t > latency_s) * wave)[:, None] * np.array([1.0, 0.8, 0.6, 0.2])


def judge(
    detector: SsvepDetector, hz: float | None, amplitude_uv: float, seed: int, seconds: float = 4.9
) -> NDArray[np.float64]:
    """One trial after 5 s of noise; it is learned from with an even prior."""
    detector.push(noise(5, seed))
    detector.begin()
    trial = noise(seconds, seed + 1000)
    if hz is not None:
        trial += amplitude_uv * flicker(hz)[: len(trial)]
    detector.push(trial)
    evidence = detector.evidence()
    detector.end()
    n = detector.response.n_frequencies
    detector.learn(evidence, np.full(n + 1, 1 / (n + 1)))
    return evidence.log_odds


@given(cuts=st.lists(st.integers(1, 999), max_size=8), begin=st.integers(0, 900))
@settings(max_examples=30, deadline=None)
def test_sums_since_a_mark_are_the_fourier_sums_for_any_cut(cuts: list[int], begin: int) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 2))
    hz = np.array([[10.0, 20.0], [11.0, 22.0]])
    sums = Demodulator(hz, RATE, 2, (0, begin))
    for piece in np.split(x, sorted(set(cuts))):
        sums.push(piece)
    waves = np.exp(-2j * np.pi * hz[..., None] * np.arange(1000) / RATE)
    np.testing.assert_allclose(sums.since(begin), waves[..., begin:] @ x[begin:], atol=1e-8)


def test_sums_since_a_mark_that_was_not_reached_are_zero() -> None:
    sums = Demodulator(np.array([10.0]), RATE, 2, (500,))
    sums.push(np.ones((499, 2)))
    assert not sums.since(500).any()


def test_noise_covariance_is_that_of_white_noise_and_hides_no_response() -> None:
    mixing = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.3, 2.0]])
    x = np.random.default_rng(1).normal(size=(50_000, 3)) @ mixing.T
    t = np.arange(len(x)) / RATE
    with_response = x + 5 * np.cos(2 * np.pi * 12.0 * t)[:, None]
    measured = NarrowbandNoise(np.array([12.0]), RATE, 3)
    for piece in np.array_split(with_response, 700):
        measured.push(piece)
    expected = mixing @ mixing.T
    np.testing.assert_allclose(measured.covariance()[0], expected, atol=0.6)


def test_noise_covariance_is_invertible_with_a_flat_lead() -> None:
    measured = NarrowbandNoise(np.array([12.0]), RATE, 3)
    x = np.random.default_rng(1).normal(size=(2500, 3))
    x[:, 1] = 0
    measured.push(x)
    assert np.linalg.cond(measured.covariance()[0]) < 1e3


def test_the_first_trial_of_a_session_is_carried_by_the_canonical_correlation() -> None:
    """No noise was seen before it, and no response: yet the frequency is found."""
    hz = (13.0, 17.0, 21.0)
    right = 0
    for seed in range(12):
        detector = SsvepDetector(hz, RATE, LEADS)
        detector.begin()
        assert not detector.evidence().log_odds.any()  # nothing is known at all
        detector.push(noise(3, seed) + 3.0 * flicker(hz[seed % 3], 3.0))
        right += int(np.argmax(detector.evidence().log_odds) == seed % 3)
    assert right >= 11


def test_the_correlation_does_not_choose_between_near_frequencies() -> None:
    """It has its share in whether there is a response; what was learned decides which one it is."""
    detector = SsvepDetector((*CLOSE_HZ, 21.0), RATE, LEADS)
    for trial in range(3):
        judge(detector, CLOSE_HZ[trial], 3.0, trial)
    detector.begin()
    detector.push(noise(3, 50) + 3.0 * flicker(15.5, 3.0))
    evidence = detector.evidence()
    assert evidence.correlated.any()
    assert evidence.sample is not None
    learned = detector.response.log_odds(evidence.sample)
    np.testing.assert_allclose(np.diff(evidence.log_odds[:4]), np.diff(learned[:4]))
    assert abs(np.diff(evidence.log_odds[3:] - learned[3:])[0]) > 0.1


def test_the_canonical_correlation_is_that_of_the_definition() -> None:
    from sklearn.cross_decomposition import CCA

    x = noise(4, 1) + flicker(13.0, 4.0)
    t = np.arange(len(x)) / RATE
    x = x - x.mean(axis=0)
    hz = np.array([13.0, 26.0, 39.0])
    waves = np.exp(-2j * np.pi * hz[:, None] * t)
    found = CanonicalEvidence(LEADS)
    found.push(x[:300])
    found.push(x[300:])
    ours = float(found.correlations((waves @ x)[None, :, None])[0, 0])
    y = np.concatenate([waves.real, waves.imag]).T
    first, second = CCA(n_components=1, scale=False, max_iter=2000).fit_transform(x, y)
    assert ours == pytest.approx(abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]), abs=0.02)


def test_noise_alone_is_rarely_taken_for_a_response_by_correlation() -> None:
    detector = SsvepDetector((13.0, 17.0, 21.0), RATE, LEADS)
    odds = []
    for seed in range(40):
        detector.begin()
        detector.push(noise(4, seed))
        odds.append(detector.evidence().correlated)
    assert np.mean(np.array(odds) > 3) < 0.05


def test_far_frequencies_are_distinguished_from_each_other_and_from_rest_without_any_label() -> (
    None
):
    hz = (13.0, 17.0, 21.0)
    detector = SsvepDetector(hz, RATE, LEADS)
    judge(detector, None, 0, 99)
    for trial in range(9):
        odds = judge(detector, hz[trial % 3], 3.0, trial)
        assert int(np.argmax(odds)) == trial % 3
        assert odds.max() > 10
        assert judge(detector, None, 0.0, 100 + trial).max() < 5


def share_right_of_close_frequencies(locked: bool) -> float:
    """Weak flicker seen for 2.5 s, where 0.1 Hz is a quarter of a bin, after 16 whole trials."""
    detector = SsvepDetector(CLOSE_HZ, RATE, LEADS)
    judge(detector, None, 0, 99)
    chance = np.random.default_rng(5)
    right = []
    for trial in range(40):
        which = int(chance.integers(4))
        latency_s = 0.14 if locked else 0.1 + float(chance.uniform(0, 1 / 15.5))
        seconds = 4.9 if trial < 16 else 2.5
        detector.push(noise(3, trial))
        detector.begin()
        detector.push(
            noise(seconds, trial + 1000) + 1.5 * flicker(CLOSE_HZ[which], seconds, latency_s)
        )
        evidence = detector.evidence()
        detector.end()
        detector.learn(evidence, np.full(5, 0.2))
        right.append(int(np.argmax(evidence.log_odds)) == which)
    return float(np.mean(right[16:]))


def test_frequencies_a_tenth_of_a_hertz_apart_are_shown_by_their_phase() -> None:
    locked = share_right_of_close_frequencies(locked=True)
    assert locked >= 0.7
    assert share_right_of_close_frequencies(locked=False) < locked - 0.2


def test_onset_of_the_response_is_learned() -> None:
    detector = SsvepDetector((13.0, 17.0), RATE, LEADS)
    judge(detector, None, 0, 99)
    for trial in range(6):
        detector.push(noise(5, trial))
        detector.begin()
        late = np.concatenate([np.zeros((250, LEADS)), 4 * flicker(13.0, 3.9)])
        detector.push(noise(4.9, trial + 50) + late)
        evidence = detector.evidence()
        detector.end()
        detector.learn(evidence, np.full(3, 1 / 3))
    weight = detector.response._onset_weight
    assert int(np.argmax(weight)) == 2  # 1.0 s


@given(scale=st.floats(0.01, 100))
@settings(max_examples=10, deadline=None)
def test_evidence_does_not_depend_on_the_unit_of_the_signal(scale: float) -> None:
    odds = []
    for unit in (1.0, scale):
        detector = SsvepDetector((13.0, 17.0), RATE, LEADS)
        detector.push(unit * noise(6, 1))
        detector.begin()
        detector.push(unit * (noise(3, 2) + 2 * flicker(17.0, 3.0)))
        odds.append(detector.evidence().log_odds)
    np.testing.assert_allclose(odds[0], odds[1], rtol=1e-6, atol=1e-6)


def test_a_window_that_has_not_begun_shows_nothing() -> None:
    model = ResponseModel((13.0,), 1, 1, 2)
    model.set_noise(np.eye(2)[None, None])
    empty = Sample(np.zeros((1, 1, 1, 2), complex), np.ones((1, 1, 1)), np.zeros(1))
    assert model.log_odds(empty) == pytest.approx([0.0])


def test_frequencies_near_each_other_are_measured_by_the_same_noise() -> None:
    """Each by its own estimate, a strong response would be observed apart by the estimates' errors."""
    model = ResponseModel([15.4, 15.5, 15.7, 21.0], harmonics=1, onsets=1, n_leads=1)
    pooled = model.pooled(np.array([1.0, 1.1, 1.2, 3.0]))
    assert pooled == pytest.approx([1.1, 1.1, 1.1, 3.0])
    assert len(set(pooled[:3].tolist())) == 1
