"""Stacking: how much each of several classifiers is heeded, by how they did on trials left out.

With few trials a classifier per band, or one with a weaker penalty, fits what is not there; those
that foretell left-out trials get weight, the others stay at what they start from. The sum's
probabilities are calibrated by the same fit.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold

from decoders.covariance import Array

FOLDS = 5
CAUTION = 0.1
"""What moving a weight by 1 costs, in nats a trial: so that chance in a few trials moves little."""

Labels = NDArray[np.int64]


class Learner(NamedTuple):
    """A logistic regression on one band's features; weight: where stacking begins.

    penalty_c: sklearn's C; small ones come near to the nearest class mean.
    """

    band: int
    penalty_c: float
    weight: float


class Linear(NamedTuple):
    """weights (classes, features), bias (classes,)."""

    weights: Array
    bias: Array

    def scores(self, x: Array) -> Array:
        return np.asarray(x @ self.weights.T + self.bias)


class Trials(NamedTuple):
    """x (bands, windows, trials, features), y (trials,) labels, session (trials,) that each is of."""

    x: Array
    y: Labels
    session: Labels


def stack(
    trials: Trials, learners: tuple[Learner, ...], reported: list[int], seed: int
) -> list[Linear]:
    """For each band one classifier; the sum of their scores is what the learners say together.

    reported: the windows by which a classifier is judged.
    """
    everything = np.arange(len(trials.y))
    fitted = [fit(trials, learner, everything, seed) for learner in learners]
    weights = _weights(trials, learners, reported, seed)
    return [_sum(fitted, weights, learners, band) for band in range(len(trials.x))]


def fit(trials: Trials, learner: Learner, rows: Labels, seed: int) -> Linear:
    """A learner, of some trials; each counts once, through however many windows it is seen."""
    x = trials.x[learner.band][:, rows]
    windows, _, features = x.shape
    regression = LogisticRegression(
        C=learner.penalty_c, class_weight="balanced", max_iter=2000, tol=1e-3, random_state=seed
    )
    share = np.full(windows * len(rows), 1 / windows)
    y = np.tile(trials.y[rows], windows)
    regression.fit(x.reshape(-1, features), y, sample_weight=share)
    return Linear(regression.coef_, regression.intercept_)


def _weights(
    trials: Trials, learners: tuple[Learner, ...], reported: list[int], seed: int
) -> Array:
    """One a learner, not negative: the likelihood of left-out trials, less what moving costs."""
    start = np.array([learner.weight for learner in learners])
    folds = list(_folds(trials))
    if not folds:
        return start
    classes, y = np.unique(trials.y, return_inverse=True)
    held_out = np.zeros((len(learners), len(reported), len(y), len(classes)))
    for rows, out in folds:
        for number, learner in enumerate(learners):
            linear = fit(trials, learner, rows, seed)
            seen = trials.x[learner.band][reported][:, out]
            held_out[number][:, out] = log_softmax(linear.scores(seen), axis=-1)
    said = held_out.reshape(len(learners), -1, len(classes))
    loss = _loss(said, np.tile(y, len(reported)), start)
    found = minimize(loss, start, jac=True, bounds=[(0, None)] * len(start), method="L-BFGS-B")
    return np.asarray(found.x)


def _loss(said: Array, y: Labels, start: Array) -> Callable[[Array], tuple[float, Array]]:
    """said (learners, rows, classes) -> the loss of weights, and its gradient."""
    right = said[:, np.arange(len(y)), y]

    def loss(weights: Array) -> tuple[float, Array]:
        joint = log_softmax(np.tensordot(weights, said, 1), axis=-1)
        expected = (np.exp(joint) * said).sum(axis=-1)
        away = weights - start
        value = -joint[np.arange(len(y)), y].mean() + CAUTION * away @ away
        return float(value), np.asarray((expected - right).mean(axis=1) + 2 * CAUTION * away)

    return loss


def _folds(trials: Trials) -> Iterator[tuple[Labels, Labels]]:
    """Sessions left out where there are three or more; else trials, as far as each class has any."""
    sessions = len(np.unique(trials.session))
    if sessions >= 3:
        yield from GroupKFold(min(FOLDS, sessions)).split(trials.y, trials.y, trials.session)
        return
    fewest = int(np.unique(trials.y, return_counts=True)[1].min())
    if fewest >= 2:
        yield from StratifiedKFold(min(FOLDS, fewest)).split(trials.y, trials.y)


def _sum(fitted: list[Linear], weights: Array, learners: tuple[Learner, ...], band: int) -> Linear:
    own = [
        (weight, linear)
        for weight, linear, learner in zip(weights, fitted, learners, strict=True)
        if learner.band == band
    ]
    return Linear(
        np.asarray(sum(weight * linear.weights for weight, linear in own)),
        np.asarray(sum(weight * linear.bias for weight, linear in own)),
    )
