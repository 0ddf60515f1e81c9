"""A causal filter gives the same for any split, and one bad sample does not ruin the rest."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import RuleError
from decoders.dsp.filters import (
    CausalFilter,
    Decimator,
    FilterBank,
    Hold,
    bandpass,
    decimation,
    highpass,
    lowpass,
    notch,
)
from decoders.ecog.features import BANDS_HZ as ECOG_BANDS_HZ
from decoders.emotion.features import BANDS_HZ as EMOTION_BANDS_HZ
from decoders.turing import imagery

RNG = np.random.default_rng(0)
X = RNG.normal(50, 10, (200, 3))


def in_pieces(x: np.ndarray, cuts: list[int]) -> list[np.ndarray]:
    bounds = [0, *sorted(cuts), len(x)]
    return [x[a:b] for a, b in pairwise(bounds)]


@given(st.lists(st.integers(0, 200), max_size=10))
def test_a_filter_gives_the_same_for_any_split(cuts: list[int]) -> None:
    sos = bandpass(4, 30, 250)
    whole = CausalFilter(sos, 3).step(X)
    filter_ = CausalFilter(sos, 3)
    assert np.array_equal(np.concatenate([filter_.step(x) for x in in_pieces(X, cuts)]), whole)


@given(st.integers(1, 7), st.lists(st.integers(0, 200), max_size=10))
def test_a_decimator_keeps_the_same_samples_for_any_split(q: int, cuts: list[int]) -> None:
    whole = Decimator(q, 3).step(X)
    assert len(whole) == -(-200 // q)
    piecewise = Decimator(q, 3)
    pieces = [piecewise.step(x) for x in in_pieces(X, cuts)]
    assert np.array_equal(np.concatenate(pieces), whole)


def test_a_filter_is_causal() -> None:
    changed = X.copy()
    changed[100:] = 0
    sos = lowpass(20, 250)
    assert np.array_equal(
        CausalFilter(sos, 3).step(X)[:100], CausalFilter(sos, 3).step(changed)[:100]
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_a_bad_sample_stands_for_the_one_before_and_leaves_the_state_clean(bad: float) -> None:
    spoilt, held = X.copy(), X.copy()
    spoilt[50:53, 1] = bad
    held[50:53, 1] = X[49, 1]
    sos = bandpass(1, 30, 250)
    assert np.array_equal(CausalFilter(sos, 3).step(spoilt), CausalFilter(sos, 3).step(held))


def test_hold_carries_the_last_good_value_into_the_next_packet() -> None:
    hold = Hold(2)
    assert hold.step(np.array([[np.nan, 2.0]])).tolist() == [[0.0, 2.0]]
    assert hold.step(np.array([[1.0, np.nan]])).tolist() == [[1.0, 2.0]]


def test_an_offset_makes_no_transient() -> None:
    flat = np.full((50, 2), 4000.0)
    assert np.abs(CausalFilter(highpass(0.5, 250), 2).step(flat)).max() < 1e-6
    assert np.abs(CausalFilter(lowpass(30, 250), 2).step(flat) - 4000).max() < 1e-6


def gain_at(sos: np.ndarray, hz: float, rate: float) -> float:
    t = np.arange(int(20 * rate)) / rate
    y = CausalFilter(sos, 1).step(np.sin(2 * np.pi * hz * t)[:, None])
    return float(np.abs(y[len(y) // 2 :]).max())


def test_the_designs_pass_and_stop_what_they_say() -> None:
    assert gain_at(bandpass(8, 12, 250), 10, 250) > 0.98
    assert gain_at(bandpass(8, 12, 250), 20, 250) < 0.01
    assert gain_at(bandpass(8, 200, 250), 60, 250) > 0.98
    assert gain_at(notch(50, 250), 50, 250) < 0.05
    assert gain_at(notch(50, 250), 100, 250) < 0.05
    assert gain_at(notch(50, 250), 30, 250) > 0.97
    assert gain_at(notch(60, 100), 24, 100) > 0.99  # beyond Nyquist: nothing to take out


def test_a_decimator_does_not_fold_high_frequencies_back() -> None:
    t = np.arange(4000) / 1000
    y = Decimator(5, 1).step(np.sin(2 * np.pi * 190 * t)[:, None])
    assert np.abs(y[200:]).max() < 0.02


def test_decimation_leaves_at_least_the_rate_asked_for() -> None:
    assert decimation(1000, 200) == 5
    assert decimation(160, 100) == 1
    assert decimation(250, 125) == 2


def test_a_band_that_can_not_be_is_refused() -> None:
    with pytest.raises(RuleError, match="band 30-10 Hz"):
        bandpass(30, 10, 250)
    with pytest.raises(RuleError, match="below 125"):
        bandpass(130, 200, 250)


SLOW = np.concatenate([highpass(0.2, 1000.0, 1), lowpass(4.0, 1000.0, 2)])
USED = [
    *((bandpass(*band, 1000.0, order=2)) for band in ECOG_BANDS_HZ),
    *((bandpass(*band, 250.0, order=3)) for band in imagery.BANDS_HZ),
    *((bandpass(*band, 250.0, order=3)) for band in EMOTION_BANDS_HZ),
    SLOW,
]


@pytest.mark.parametrize("number", range(len(USED)))
def test_it_is_as_exact_as_sections_over_a_long_stream(number: int) -> None:
    x = 1000 + np.random.default_rng(0).normal(0, 30, (100_000, 1))
    expected = CausalFilter(USED[number], 1).step(x)
    (got,) = FilterBank([USED[number]], 1).step(x)
    np.testing.assert_allclose(got, expected, atol=1e-4 * expected.std())


@given(cuts=st.lists(st.integers(1, 499), max_size=6))
@settings(max_examples=25, deadline=None)
def test_any_cut_gives_the_same(cuts: list[int]) -> None:
    x = np.random.default_rng(1).normal(0, 30, (500, 2))
    whole = FilterBank(USED, 2).step(x)
    bank = FilterBank(USED, 2)
    pieces = [bank.step(piece) for piece in np.split(x, sorted(set(cuts)))]
    assert np.array_equal(np.concatenate(pieces, axis=1), whole)


def test_what_is_not_finite_leaves_the_state_clean() -> None:
    bank = FilterBank(USED, 1)
    x = np.random.default_rng(2).normal(0, 30, (200, 1))
    x[50:60] = np.nan
    x[70] = np.inf
    assert np.isfinite(bank.step(x)).all()
    assert bank.step(x[:0]).shape == (len(USED), 0, 1)
