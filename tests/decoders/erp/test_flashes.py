"""Separable noise is known from little signal, and what is not separable is followed when it is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from decoders.dsp import Array
from decoders.dsp.covariance import oas_amount, shrink
from decoders.erp.flashes import Separable, whitener_of

TIMES, LEADS = 6, 10
P = TIMES * LEADS


def correlated(rng: np.random.Generator, n: int) -> Array:
    """Neighbours alike, each with its own size."""
    size = np.exp(rng.normal(0, 0.5, n))
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    return np.asarray(0.8**apart * np.outer(size, size))


def sample(rng: np.random.Generator, cov: Array, n: int) -> Array:
    rows = rng.standard_normal((n, len(cov))) @ linalg.cholesky(cov)
    return np.asarray(rows.T @ rows / n)


def error(whitener: Array, cov: Array) -> float:
    """How far the noise is from white after it, any scale: 0 is perfect."""
    left = whitener @ cov @ whitener.T
    logs = np.log(np.linalg.eigvalsh(left))
    return float(np.std(logs))


def plain(cov: Array, n: int) -> Array:
    """What shrinkage towards the identity gives."""
    root = linalg.cholesky(shrink(cov, oas_amount(cov, n)), lower=True)
    return np.asarray(linalg.inv(root))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_fewer_windows_than_features_whiten_separable_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = np.kron(correlated(rng, TIMES), correlated(rng, LEADS))
    seen = sample(rng, true, P // 2)
    ours = whitener_of(seen, P // 2, LEADS, np.eye(P), floor=1e-3)
    assert error(ours, true) < 0.7 * error(plain(seen, P // 2), true)


def test_noise_that_is_not_separable_is_followed_once_it_is_known() -> None:
    rng = np.random.default_rng(0)
    true = correlated(rng, P)[np.ix_(order := rng.permutation(P), order)]
    seen = sample(rng, true, 50 * P)
    known = whitener_of(seen, 50 * P, LEADS, np.eye(P), floor=1e-4)
    factors = Separable.of(seen, LEADS)
    separable_only = factors.whiten(np.eye(P))
    assert error(known, true) < 0.3 * error(separable_only, true)


def test_the_factors_of_a_product_are_found_up_to_scale() -> None:
    rng = np.random.default_rng(1)
    times, leads = correlated(rng, TIMES), correlated(rng, LEADS)
    factors = Separable.of(np.kron(times, leads), LEADS)
    white = factors.whiten(factors.whiten(np.kron(times, leads)).T)
    assert white / white[0, 0] == pytest.approx(np.eye(P), abs=1e-8)


def test_only_what_the_signals_span_is_left() -> None:
    rng = np.random.default_rng(2)
    seen = sample(rng, np.kron(correlated(rng, TIMES), correlated(rng, LEADS)), 4 * P)
    signals = rng.standard_normal((P, 7))
    whitener = whitener_of(seen, P, LEADS, signals, floor=1e-3)
    assert whitener.shape == (7, P)
    kept = whitener.T @ whitener @ signals
    assert np.linalg.matrix_rank(np.column_stack([whitener.T, kept])) == 7
