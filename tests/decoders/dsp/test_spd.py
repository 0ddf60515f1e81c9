"""Positive definite matrices: roots, means and completion agree with what defines them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.tangentspace import tangent_space

from decoders.dsp.spd import completed, geodesic, inverse_root, logarithm, root, tangent


def spd(seed: int, n: int = 5) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(4 * n, n))
    return x.T @ x / (4 * n)


@given(st.integers(0, 99))
def test_roots_and_logarithms_are_what_they_say(seed: int) -> None:
    c = spd(seed)
    assert np.allclose(root(c) @ root(c), c)
    assert np.allclose(inverse_root(c) @ c @ inverse_root(c), np.eye(5))
    assert np.allclose(logarithm(np.eye(5)), 0)


@given(st.integers(0, 99), st.floats(0, 1))
def test_the_geodesic_is_pyriemanns(seed: int, share: float) -> None:
    a, b = spd(seed), spd(seed + 100)
    assert np.allclose(geodesic(a, b, share), geodesic_riemann(a, b, share))


def test_the_tangent_space_is_pyriemanns() -> None:
    batch, reference = np.array([spd(1), spd(2)]), spd(3)
    assert np.allclose(tangent(batch, reference), tangent_space(batch, reference))


@given(st.integers(0, 99), st.lists(st.booleans(), min_size=5, max_size=5))
def test_completion_keeps_live_leads_and_is_positive_definite(seed: int, live: list[bool]) -> None:
    c, reference, mask = spd(seed), spd(seed + 1), np.array(live)
    whole = completed(c, mask, reference)
    assert np.linalg.eigvalsh(whole).min() > 0
    assert np.allclose(whole[np.ix_(mask, mask)], c[np.ix_(mask, mask)])


def test_completing_the_reference_gives_the_reference() -> None:
    reference = spd(4)
    for dead in range(5):
        assert np.allclose(completed(reference, np.arange(5) != dead, reference), reference)
    assert np.array_equal(completed(spd(5), np.zeros(5, dtype=bool), reference), reference)
