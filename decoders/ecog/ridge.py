"""Ridge regression from moments, shrunk towards zero or towards another subject's weights.

Penalty, balance of powers and slow potential, and the share of the other subject's weights are chosen
by cross-validation over folds in time, by the track's own score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array


@dataclass(frozen=True)
class RegressionMoments:
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
    def of(cls, x: Array, y: Array) -> "RegressionMoments":
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

    def __add__(self, other: "RegressionMoments") -> "RegressionMoments":
        return RegressionMoments(
            self.n + other.n,
            self.x + other.x,
            self.y + other.y,
            self.xx + other.xx,
            self.xy + other.xy,
            self.yy + other.yy,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def pick(self, places: NDArray[np.int64]) -> "RegressionMoments":
        """The moments of some features."""
        return RegressionMoments(
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
        """Second moments (features, features) and (features, targets) standardised, per row."""
        centred = self.xx - np.outer(self.x, scale.x_mean) - np.outer(scale.x_mean, self.x)
        centred += self.n * np.outer(scale.x_mean, scale.x_mean)
        cross = self.xy - np.outer(self.x, scale.y_mean) - np.outer(scale.x_mean, self.y)
        cross += self.n * np.outer(scale.x_mean, scale.y_mean)
        xx = centred / np.outer(scale.x_sd, scale.x_sd) / self.n
        return xx, cross / np.outer(scale.x_sd, scale.y_sd) / self.n


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of features and targets; infinite sd for constants."""

    x_mean: Array
    x_sd: Array
    y_mean: Array
    y_sd: Array

    @classmethod
    def of(cls, moments: RegressionMoments) -> "Scale":
        x_mean, y_mean = moments.x / moments.n, moments.y / moments.n
        x_var = np.diagonal(moments.xx) / moments.n - x_mean**2
        y_var = moments.yy / moments.n - y_mean**2
        return cls(x_mean, _sd(x_var, x_mean), y_mean, _sd(y_var, y_mean))

    def targets(self, units: Array) -> Array:
        """Standardised targets in original units; a constant one is its mean."""
        return np.asarray(self.y_mean + np.where(np.isfinite(self.y_sd), self.y_sd, 0.0) * units)


def _sd(variance: Array, mean: Array) -> Array:
    """Infinite for constants, so that dividing by it gives 0."""
    alive = variance > 1e-9 * (1 + mean**2)
    return np.where(alive, np.sqrt(np.maximum(variance, 1e-12)), np.inf)


PENALTY_ROWS = (50.0, 150.0, 500.0, 1500.0, 5000.0)
"""Ridge penalties in rows of data; the small ones are for recordings of some seconds."""
USUAL_ROWS = 1500.0
GOOD_ENOUGH = 2.0
"""Among choices within so many points of the best score, the greatest penalty is taken."""
BALANCES = ((1.0, 1.0), (1.0, 1000.0), (1000.0, 1.0))
"""Penalty factors of powers and slow potential: on some implants one of them carries nothing."""
IMPLAUSIBLE_SD, LIMIT_SD = 8.0, 4.0
TRUSTS = (0.0, 0.5, 1.0)
"""Shares of another subject's weights to shrink towards."""


@dataclass(frozen=True)
class Ridge:
    """weights (features, targets) between standardised values; scale: of the standardisation."""

    weights: Array
    scale: Scale

    def predict(self, x: NDArray[np.floating]) -> Array:
        """x (rows, features) -> (rows, targets), in the targets' own units."""
        units = plausible((x - self.scale.x_mean) / self.scale.x_sd)
        return self.scale.targets(units @ self.weights)


def plausible(units: Array) -> Array:
    """Standardised features, clipped; implausible ones (a dead lead) set to 0."""
    return np.where(np.abs(units) <= IMPLAUSIBLE_SD, np.clip(units, -LIMIT_SD, LIMIT_SD), 0.0)


@dataclass(frozen=True)
class Choice:
    """Chosen parameters, and their score on held-out folds."""

    penalty: float
    balance: tuple[float, float]
    trust: float
    score: float


@dataclass(frozen=True)
class _Solver:
    """Diagonalised moments for one balance: each penalty is then cheap."""

    scale: Scale
    axes: Array
    power: Array
    target: Array
    shrunk: Array

    @classmethod
    def of(cls, moments: RegressionMoments, shrunk: Array) -> "_Solver":
        scale = Scale.of(moments)
        xx, xy = moments.standard(scale)
        power, axes = np.linalg.eigh(shrunk[:, None] * xx * shrunk)
        return cls(scale, axes, np.maximum(power, 0.0), axes.T @ (shrunk[:, None] * xy), shrunk)

    def solve(self, penalty: float, start: Array | None) -> Ridge:
        begin = 0.0 if start is None else self.axes.T @ (start / self.shrunk[:, None])
        inner = (self.target + penalty * begin) / (self.power + penalty)[:, None]
        weights = self.shrunk[:, None] * (self.axes @ inner)
        return Ridge(np.where(np.isfinite(self.scale.x_sd)[:, None], weights, 0.0), self.scale)


def fit_ridge(
    folds: Sequence[RegressionMoments], slow: NDArray[np.bool_], start: Array | None = None
) -> tuple[Ridge, Choice]:
    """Choose by leaving each fold out, then fit on all. start: another subject's weights."""
    tried = _choices(folds, slow, start)
    best = max(choice.score for choice in tried)
    good = [choice for choice in tried if choice.score >= best - GOOD_ENOUGH]
    choice = max(good, key=lambda choice: (choice.penalty, choice.score))
    solver = _Solver.of(total(folds), _shrunk(choice.balance, slow))
    return solver.solve(choice.penalty, _towards(start, choice.trust)), choice


def held_out_fits(
    folds: Sequence[RegressionMoments],
    slow: NDArray[np.bool_],
    choice: Choice,
    start: Array | None = None,
) -> list[Ridge]:
    """For each fold the fit on all others."""
    shrunk, begin = _shrunk(choice.balance, slow), _towards(start, choice.trust)
    return [_Solver.of(rest, shrunk).solve(choice.penalty, begin) for rest in _rests(folds)]


def total(parts: Sequence[RegressionMoments]) -> RegressionMoments:
    """The moments of all parts together."""
    return reduce(add, parts)


@dataclass(frozen=True)
class HeldOutFold:
    """A held-out fold in the scale of the rest: what the score of a fit on it needs."""

    n: float
    xx: Array
    xy: Array
    x: Array
    y: Array
    yy: Array
    scale: Scale

    @classmethod
    def of(cls, fold: RegressionMoments, scale: Scale) -> "HeldOutFold":
        xx, xy = fold.standard(scale)
        x = (fold.x / fold.n - scale.x_mean) / scale.x_sd
        return cls(fold.n, xx, xy, x, fold.y / fold.n, fold.yy / fold.n, scale)

    def sums(self, weights: Array) -> Array:
        """Of predictions p and truth y in its own units: p, y, p p, y y, p y; (5, targets)."""
        sd = np.where(np.isfinite(self.scale.y_sd), self.scale.y_sd, 0.0)
        off = self.scale.y_mean
        p = off + sd * (self.x @ weights)
        pp = off**2 + 2 * off * (p - off) + sd**2 * (weights * (self.xx @ weights)).sum(axis=0)
        # xy is of (y - off) / sd, so the mean of p y is off y + off (p - off) + sd^2 w' xy.
        py = off * self.y + off * (p - off) + sd**2 * (weights * self.xy).sum(axis=0)
        return self.n * np.array([p, self.y, pp, self.yy, py])


def pooled_score(sums: Array, n: float, span: Array) -> float:
    """50 * (1 - NRMSE) + 50 * CORR, the mean over the targets.

    Pooled over all folds, since a fold without movement has no meaningful correlation.
    """
    p, y, pp, yy, py = sums / n
    moved = span > 0
    error = np.sqrt(np.maximum(pp - 2 * py + yy, 0.0))
    varied = np.maximum(pp - p**2, 1e-12) * np.maximum(yy - y**2, 1e-12)
    nrmse = np.where(moved, error / np.where(moved, span, 1.0), 1.0)
    corr = np.where(moved, (py - p * y) / np.sqrt(varied), 0.0)
    return float(50 * (1 - nrmse.mean()) + 50 * corr.mean())


def usual_ridge(moments: RegressionMoments) -> Ridge:
    """A fit with the default penalty."""
    plain = np.ones(len(moments.x))
    return _Solver.of(moments, plain).solve(USUAL_ROWS / moments.n, None)


def least_needed(moments: RegressionMoments, group: int, keep: int) -> list[int]:
    """Drop groups of `group` features until `keep` are left, each time the least useful one.

    Without a group c the fit loses w_c' inv(inv(H)_cc) w_c, H the penalised moments.
    """
    xx, xy = moments.standard(Scale.of(moments))
    penalised = xx + USUAL_ROWS / moments.n * np.eye(len(xx))
    left = list(range(len(xx) // group))
    while len(left) > keep:
        places = (np.array(left)[:, None] * group + np.arange(group)).ravel()
        inverse: Array = np.asarray(np.linalg.inv(penalised[np.ix_(places, places)]), float)
        weights = inverse @ xy[places]
        parts = [slice(i * group, (i + 1) * group) for i in range(len(left))]
        del left[int(np.argmin([_loss_without(inverse, weights, part) for part in parts]))]
    return left


def _loss_without(inverse: Array, weights: Array, part: slice) -> float:
    own = weights[part]
    return float(np.sum(own * np.linalg.solve(inverse[part, part], own)))


def _choices(
    folds: Sequence[RegressionMoments], slow: NDArray[np.bool_], start: Array | None
) -> list[Choice]:
    trusts = (0.0,) if start is None else TRUSTS
    whole, rests = total(folds), _rests(folds)
    pairs = zip(folds, rests, strict=True)
    held_out = [HeldOutFold.of(fold, Scale.of(rest)) for fold, rest in pairs]
    tried = []
    for balance in BALANCES:
        solvers = [_Solver.of(rest, _shrunk(balance, slow)) for rest in rests]
        for rows, trust in product(PENALTY_ROWS, trusts):
            penalty = rows / whole.n
            fits = [solver.solve(penalty, _towards(start, trust)) for solver in solvers]
            pairs_of = zip(fits, held_out, strict=True)
            sums = np.sum([out.sums(fitted.weights) for fitted, out in pairs_of], axis=0)
            score = pooled_score(sums, whole.n, whole.high - whole.low)
            tried.append(Choice(penalty, balance, trust, score))
    return tried


def _rests(folds: Sequence[RegressionMoments]) -> list[RegressionMoments]:
    return [total([*folds[:i], *folds[i + 1 :]]) for i in range(len(folds))]


def _shrunk(balance: tuple[float, float], slow: NDArray[np.bool_]) -> Array:
    powers, potential = balance
    return np.asarray(np.where(slow, potential**-0.5, powers**-0.5))


def _towards(start: Array | None, trust: float) -> Array | None:
    return None if start is None or trust == 0 else trust * start
