"""Covariances as points of a curved space: roots, logarithms, means of positive definite matrices.

pyriemann has all of these for batches in training; here are the few that a running decoder needs,
one eigendecomposition each.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from decoders.dsp.covariance import Array

SMALLEST = 1e-12


def by_eigenvalues(matrices: Array, function: Callable[[Array], Array]) -> Array:
    """A function of symmetric matrices (..., n, n), by way of their eigenvalues."""
    values, vectors = np.linalg.eigh(matrices)
    mapped: Array = (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return mapped


def positive_definite(matrix: Array) -> bool:
    """Whether this is a covariance: symmetric, every eigenvalue above 0."""
    return bool(np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix).min() > 0)


def root(matrices: Array) -> Array:
    return by_eigenvalues(matrices, lambda values: np.sqrt(np.maximum(values, SMALLEST)))


def inverse_root(matrices: Array) -> Array:
    return by_eigenvalues(matrices, lambda values: np.maximum(values, SMALLEST) ** -0.5)


def logarithm(matrices: Array) -> Array:
    return by_eigenvalues(matrices, lambda values: np.log(np.maximum(values, SMALLEST)))


def geodesic(start: Array, stop: Array, share: float) -> Array:
    """The point that lies `share` of the way from one matrix to the other."""
    outer, inner = root(start), inverse_root(start)
    step = by_eigenvalues(
        inner @ stop @ inner, lambda values: np.maximum(values, SMALLEST) ** share
    )
    return outer @ step @ outer


def tangent(matrices: Array, reference: Array) -> Array:
    """Coordinates (..., n (n + 1) / 2) of matrices in the tangent space at the reference."""
    inner = inverse_root(reference)
    logs = logarithm(inner @ matrices @ inner)
    rows, columns = np.triu_indices(logs.shape[-1])
    coordinates: Array = logs[..., rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2))
    return coordinates


def completed(matrix: Array, live: NDArray[np.bool_], reference: Array) -> Array:
    """The matrix with its dead leads filled in as the reference foretells them from the live ones.

    So a dead lead adds nothing to what the live ones say.
    """
    if live.all():
        return matrix
    if not live.any():
        return reference
    inside = reference[np.ix_(live, live)]
    across = reference[np.ix_(~live, live)]
    foretold = np.linalg.solve(inside, across.T).T
    seen = matrix[np.ix_(live, live)]
    whole = np.empty_like(matrix)
    whole[np.ix_(live, live)] = seen
    whole[np.ix_(~live, live)] = foretold @ seen
    whole[np.ix_(live, ~live)] = (foretold @ seen).T
    unexplained = reference[np.ix_(~live, ~live)] - foretold @ across.T
    whole[np.ix_(~live, ~live)] = foretold @ seen @ foretold.T + unexplained
    return whole
