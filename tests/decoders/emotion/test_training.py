"""Scatter: people's sums add up, and its discriminant is the libraries' one."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from decoders.emotion.training import Scatter


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    return chance.normal(size=(120, 5)) + chance.normal(size=(3, 5))[y], y


def test_the_sums_of_parts_are_those_of_the_whole(rows) -> None:
    x, y = rows
    parts = Scatter.of(x[::2], y[::2], 3) + Scatter.of(x[1::2], y[1::2], 3)
    whole = Scatter.of(x, y, 3)
    for one, other in zip(parts.discriminant(0.3), whole.discriminant(0.3), strict=True):
        np.testing.assert_allclose(one, other)


def test_without_shrinkage_it_decides_as_the_librarys(rows) -> None:
    x, y = rows
    weights, bias = Scatter.of(x, y, 3).discriminant(0.0)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y).decision_function(x)
    ours = x @ weights.T + bias
    np.testing.assert_allclose(ours - ours[:, :1], theirs - theirs[:, :1], rtol=1e-5, atol=1e-6)


def test_shrunk_all_the_way_the_nearest_mean_decides(rows) -> None:
    x, y = rows
    weights, bias = Scatter.of(x, y, 3).discriminant(1.0)
    means = np.array([x[y == k].mean(axis=0) for k in range(3)])
    nearest = ((x[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert ((x @ weights.T + bias).argmax(axis=1) == nearest).all()
