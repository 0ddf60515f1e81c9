"""Scatter: sums over labelled rows that a linear discriminant needs; those of several people add up."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders.filters import Array


@dataclass(frozen=True)
class Scatter:
    """n (classes,), sums (classes, features), squares (features, features)."""

    n: Array
    sums: Array
    squares: Array

    @classmethod
    def of(cls, x: Array, y: NDArray[np.int64], classes: int) -> "Scatter":
        """x (rows, features), y (rows,) from 0 to classes - 1."""
        member = np.eye(classes)[y]
        return cls(member.sum(axis=0), member.T @ x, x.T @ x)

    def __add__(self, other: "Scatter") -> "Scatter":
        return Scatter(self.n + other.n, self.sums + other.sums, self.squares + other.squares)

    def discriminant(self, shrinkage: float) -> tuple[Array, Array]:
        """Weights (classes, features) and bias (classes,), all classes alike likely beforehand.

        shrinkage: of the covariance within classes, towards all features alike and unrelated.
        """
        means = self.sums / self.n[:, None]
        within = (self.squares - means.T @ self.sums) / self.n.sum()
        usual = float(np.trace(within)) / len(within)
        shrunk = (1 - shrinkage) * within + (shrinkage * usual + 1e-9) * np.eye(len(within))
        weights = np.asarray(np.linalg.solve(shrunk, means.T).T, float)
        return weights, -0.5 * (weights * means).sum(axis=1)
