"""A filter bank gives what sections give, for any cut of the stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.dsp.filters import CausalFilter, FilterBank, bandpass, highpass, lowpass
from decoders.ecog.features import BANDS_HZ as ECOG_BANDS_HZ
from decoders.emotion.features import BANDS_HZ as EMOTION_BANDS_HZ
from decoders.turing import imagery

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
