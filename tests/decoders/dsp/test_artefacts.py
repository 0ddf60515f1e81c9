"""Artefacts are clipped, and nothing else is changed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoders.erp.flashes import Limiter

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
