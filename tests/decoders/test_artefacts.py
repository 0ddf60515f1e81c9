"""Artefacts are limited, and dead leads are named."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoders.dsp.artefacts import Limiter, bad_leads, winsorise

X = np.random.default_rng(2).normal(size=(400, 3))


def test_a_jump_is_limited_and_the_rest_is_left_alone() -> None:
    jumped = X.copy()
    jumped[300, 1] = 1e5
    y = Limiter(3, rate=100).step(jumped)
    assert 3 < y[300, 1] < 15
    assert np.array_equal(np.delete(y, 300, 0), np.delete(X, 300, 0))
    assert jumped[300, 1] == 1e5


@given(st.integers(0, 400))
def test_a_limiter_gives_the_same_for_any_split(cut: int) -> None:
    loud = X * np.linspace(1, 30, 400)[:, None]
    pieces = Limiter(3, 100, factor=2)
    both = np.concatenate([pieces.step(loud[:cut]), pieces.step(loud[cut:])])
    assert np.array_equal(both, Limiter(3, 100, factor=2).step(loud))


def test_flat_loud_and_missing_leads_are_bad() -> None:
    window = np.random.default_rng(3).normal(size=(100, 6))
    window[:, 1] = 0
    window[:, 2] *= 50
    window[5, 4] = np.nan
    assert bad_leads(window).tolist() == [False, True, True, False, True, False]
    assert bad_leads(np.full((10, 2), np.nan)).all()


def test_winsorising_keeps_the_middle_and_limits_the_ends() -> None:
    window = X.copy()
    window[7, 0] = 1e6
    assert np.abs(winsorise(window)).max() < 10
    inside = np.abs(X) < 3
    assert np.array_equal(winsorise(X)[inside], X[inside])
