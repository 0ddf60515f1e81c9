"""Functions of symmetric positive definite matrices, one eigendecomposition each.

Training uses pyriemann; these are the few that a running decoder needs, without its validation.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array

SMALLEST = 1e-12


def by_eigenvalues(matrices: Array, function: Callable[[Array], Array]) -> Array:
    """Apply a function to the eigenvalues of symmetric matrices (..., n, n)."""
    values, vectors = np.linalg.eigh(matrices)
    mapped: Array = (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return mapped


def positive_definite(matrix: Array) -> bool:
    """Whether the matrix is symmetric with all eigenvalues above 0."""
    return bool(np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix).min() > 0)


def root(matrices: Array) -> Array:
    return by_eigenvalues(matrices, lambda values: np.sqrt(np.maximum(values, SMALLEST)))


def inverse_root(matrices: Array) -> Array:
    return by_eigenvalues(matrices, lambda values: np.maximum(values, SMALLEST) ** -0.5)


def logarithm(matrices: Array) -> Array:
    return by_eigenvalues(matrices, lambda values: np.log(np.maximum(values, SMALLEST)))


def geodesic(start: Array, stop: Array, share: float) -> Array:
    """The point at `share` of the geodesic from one matrix to the other."""
    outer, inner = root(start), inverse_root(start)
    step = by_eigenvalues(
        inner @ stop @ inner, lambda values: np.maximum(values, SMALLEST) ** share
    )
    return outer @ step @ outer


def tangent(matrices: Array, reference: Array) -> Array:
    """Coordinates (..., n (n + 1) / 2) of matrices in the tangent space at the reference."""
    inner = inverse_root(reference)
    return upper_triangle(logarithm(inner @ matrices @ inner))


def upper_triangle(matrices: Array) -> Array:
    """Symmetric matrices (..., n, n) as vectors (..., n (n + 1) / 2) with the same norm."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    vectors: Array = matrices[..., rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2))
    return vectors


def bounded(vectors: Array, most: float | Array) -> Array:
    """Vectors (..., n), those with a larger norm than `most` scaled down to it."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors * np.minimum(1.0, most / np.maximum(norms, SMALLEST)))


def completed(matrix: Array, live: NDArray[np.bool_], reference: Array) -> Array:
    """The matrix with dead leads predicted from the live ones by the reference.

    So a dead lead adds no information.
    """
    if live.all():
        return matrix
    if not live.any():
        return reference
    inside = reference[np.ix_(live, live)]
    across = reference[np.ix_(~live, live)]
    predicted = np.linalg.solve(inside, across.T).T
    seen = matrix[np.ix_(live, live)]
    whole = np.empty_like(matrix)
    whole[np.ix_(live, live)] = seen
    whole[np.ix_(~live, live)] = predicted @ seen
    whole[np.ix_(live, ~live)] = (predicted @ seen).T
    unexplained = reference[np.ix_(~live, ~live)] - predicted @ across.T
    whole[np.ix_(~live, ~live)] = predicted @ seen @ predicted.T + unexplained
    return whole
