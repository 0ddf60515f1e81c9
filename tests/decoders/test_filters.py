"""A causal filter gives the same for any split, and one bad sample does not ruin the rest."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.errors import RuleError
from decoders.dsp.filters import (
    CausalFilter,
    Decimator,
    Hold,
    bandpass,
    decimation,
    highpass,
    lowpass,
    notch,
)

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
