"""A running covariance is the covariance, and stays sound with dead leads."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.errors import RuleError
from decoders.dsp.covariance import RecursiveCovariance, live_leads, mend, oas_amount, shrink, sound

X = np.random.default_rng(1).normal(size=(300, 4)) @ np.diag([1.0, 2, 3, 4])


def test_before_it_forgets_it_is_the_plain_mean() -> None:
    running = RecursiveCovariance(4, memory_samples=1000)
    running.update(X[:100])
    running.update(X[100:])
    assert np.allclose(running.value, X.T @ X / 300)
    assert running.weight == 300


@given(st.lists(st.integers(0, 300), max_size=10))
def test_it_is_the_same_for_any_split(cuts: list[int]) -> None:
    whole, pieces = RecursiveCovariance(4, 50), RecursiveCovariance(4, 50)
    whole.update(X)
    bounds = [0, *sorted(cuts), 300]
    for a, b in pairwise(bounds):
        pieces.update(X[a:b])
    assert np.allclose(whole.value, pieces.value)


def test_old_samples_fade() -> None:
    running = RecursiveCovariance(4, memory_samples=50)
    running.update(100 * X)
    running.update(np.tile(X, (5, 1)))
    assert np.trace(running.value) < 2 * np.trace(X.T @ X / 300)


def test_a_nan_sample_is_left_out() -> None:
    spoilt = X.copy()
    spoilt[7, 2] = np.nan
    running = RecursiveCovariance(4, 1000)
    running.update(spoilt)
    assert np.allclose(running.value, np.delete(X, 7, 0).T @ np.delete(X, 7, 0) / 299)


@pytest.mark.parametrize("dead", [[0], [1, 3], [0, 1, 2, 3]])
def test_a_sound_covariance_is_positive_definite_whatever_leads_are_dead(dead: list[int]) -> None:
    x = X.copy()
    x[:, dead] = 0
    cov = x.T @ x / 300
    assert live_leads(cov).tolist() == [i not in dead for i in range(4)]
    assert np.linalg.eigvalsh(sound(cov, 300)).min() > 0


def test_mending_leaves_live_leads_as_they_are() -> None:
    x = X.copy()
    x[:, 1] = 0
    cov = x.T @ x
    live = [0, 2, 3]
    assert np.array_equal(mend(cov)[np.ix_(live, live)], cov[np.ix_(live, live)])
    assert np.all(mend(cov)[1, live] == 0)
    assert np.array_equal(mend(X.T @ X), X.T @ X)


def test_shrinkage_keeps_the_mean_variance_and_oas_agrees_with_sklearn() -> None:
    from sklearn.covariance import oas

    cov = X.T @ X / 300
    assert np.trace(shrink(cov, 0.3)) == pytest.approx(np.trace(cov))
    expected, amount = oas(X, assume_centered=True)
    assert oas_amount(cov, 300) == pytest.approx(amount)
    assert np.allclose(sound(cov, 300), expected)
    with pytest.raises(RuleError, match="between 0 and 1"):
        shrink(cov, 1.5)
