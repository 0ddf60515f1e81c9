"""Moments of features and targets: all that linear regression and its scores need."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders.filters import Array


@dataclass(frozen=True)
class Moments:
    """Sums over n rows of x (features) and y (targets), and the range of y."""

    n: float
    x: Array
    y: Array
    xx: Array
    xy: Array
    yy: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, x: Array, y: Array) -> "Moments":
        return cls(
            float(len(x)),
            x.sum(axis=0),
            y.sum(axis=0),
            x.T @ x,
            x.T @ y,
            (y**2).sum(axis=0),
            y.min(axis=0),
            y.max(axis=0),
        )

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.n + other.n,
            self.x + other.x,
            self.y + other.y,
            self.xx + other.xx,
            self.xy + other.xy,
            self.yy + other.yy,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def pick(self, places: NDArray[np.int64]) -> "Moments":
        """The same of some features only."""
        return Moments(
            self.n,
            self.x[places],
            self.y,
            self.xx[np.ix_(places, places)],
            self.xy[places],
            self.yy,
            self.low,
            self.high,
        )

    def standard(self, scale: "Scale") -> tuple[Array, Array]:
        """Second moments (features, features) and (features, targets) in standard units, a row."""
        centred = self.xx - np.outer(self.x, scale.x_mean) - np.outer(scale.x_mean, self.x)
        centred += self.n * np.outer(scale.x_mean, scale.x_mean)
        cross = self.xy - np.outer(self.x, scale.y_mean) - np.outer(scale.x_mean, self.y)
        cross += self.n * np.outer(scale.x_mean, scale.y_mean)
        xx = centred / np.outer(scale.x_sd, scale.x_sd) / self.n
        return xx, cross / np.outer(scale.x_sd, scale.y_sd) / self.n


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of features and targets; what never varied keeps weight 0."""

    x_mean: Array
    x_sd: Array
    y_mean: Array
    y_sd: Array

    @classmethod
    def of(cls, moments: Moments) -> "Scale":
        x_mean, y_mean = moments.x / moments.n, moments.y / moments.n
        x_var = np.diagonal(moments.xx) / moments.n - x_mean**2
        y_var = moments.yy / moments.n - y_mean**2
        return cls(x_mean, _sd(x_var, x_mean), y_mean, _sd(y_var, y_mean))

    def targets(self, units: Array) -> Array:
        """Targets in their own units; one that never varied is its mean."""
        return np.asarray(self.y_mean + np.where(np.isfinite(self.y_sd), self.y_sd, 0.0) * units)


def _sd(variance: Array, mean: Array) -> Array:
    """Infinite where nothing varied, so that dividing by it gives 0 and not noise."""
    alive = variance > 1e-9 * (1 + mean**2)
    return np.where(alive, np.sqrt(np.maximum(variance, 1e-12)), np.inf)
