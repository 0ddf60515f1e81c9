"""Logistic regressions on tangent vectors of several bands, and their sum, weighted on held-out trials."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold

from decoders.dsp import Array

FOLDS = 5
CAUTION = 0.1
"""Penalty of moving a stacking weight by 1, in nats per trial, against overfitting few trials."""
OTHERS_WEIGHT = 0.3
"""Initial stacking weight of a classifier of other people."""

Labels = NDArray[np.int64]


class Learner(NamedTuple):
    """A logistic regression on the features of one band; weight: its initial stacking weight.

    penalty_c: sklearn's C; small values approach the nearest class mean.
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
    """x (bands, windows, trials, features), y (trials,) labels, group (trials,) numbers.

    group: what is left out together, sessions or people.
    """

    x: Array
    y: Labels
    group: Labels


def stack(
    trials: Trials,
    learners: tuple[Learner, ...],
    reported: list[int],
    seed: int,
    others: Sequence[Linear] | None = None,
) -> list[Linear]:
    """One classifier per band; the sum of their scores is the stacked score of all learners.

    reported: the windows used for validation. others: the classifiers of other people, one per band;
    their sum is one more learner.
    """
    weights = _weights(trials, learners, reported, seed, others)
    return _weighted(trials, learners, weights, seed, others)


def fitted(trials: Trials, learners: tuple[Learner, ...], seed: int) -> list[Linear]:
    """The same with the learners' initial weights, without validation."""
    return _weighted(trials, learners, np.array([each.weight for each in learners]), seed, None)


def _weighted(
    trials: Trials,
    learners: tuple[Learner, ...],
    weights: Array,
    seed: int,
    others: Sequence[Linear] | None,
) -> list[Linear]:
    everything = np.arange(len(trials.y))
    own = [fit_linear(trials, learner, everything, seed) for learner in learners]
    return [_sum(own, weights, learners, band, others) for band in range(len(trials.x))]


def fit_linear(trials: Trials, learner: Learner, rows: Labels, seed: int) -> Linear:
    """Fit a learner on some trials; each trial has weight 1 over all its windows."""
    x = trials.x[learner.band][:, rows]
    windows, _, features = x.shape
    regression = LogisticRegression(C=learner.penalty_c, max_iter=2000, tol=1e-3, random_state=seed)
    share = np.full(windows * len(rows), 1 / windows)
    y = np.tile(trials.y[rows], windows)
    regression.fit(x.reshape(-1, features), y, sample_weight=share)
    return each_class(regression.coef_, regression.intercept_)


def each_class(weights: Array, bias: Array) -> Linear:
    """A row for each class; libraries have one row only where there are two classes."""
    if len(weights) > 1:
        return Linear(weights, bias)
    half = np.array([[-0.5], [0.5]])
    return Linear(half * weights, half[:, 0] * bias)


def _weights(
    trials: Trials,
    learners: tuple[Learner, ...],
    reported: list[int],
    seed: int,
    others: Sequence[Linear] | None = None,
) -> Array:
    """Non-negative weights, one per learner, the others' last: maximum likelihood of held-out trials
    with a penalty."""
    start = np.array([learner.weight for learner in learners])
    if others is not None:
        start = np.append((1 - OTHERS_WEIGHT) * start, OTHERS_WEIGHT)
    folds = list(_folds(trials))
    if not folds:
        return start
    classes, y = np.unique(trials.y, return_inverse=True)
    held_out = np.zeros((len(start), len(reported), len(y), len(classes)))
    for rows, out in folds:
        for number, learner in enumerate(learners):
            linear = fit_linear(trials, learner, rows, seed)
            seen = trials.x[learner.band][reported][:, out]
            held_out[number][:, out] = log_softmax(linear.scores(seen), axis=-1)
    if others is not None:
        scores = [each.scores(x[reported]) for each, x in zip(others, trials.x, strict=True)]
        held_out[-1] = log_softmax(np.sum(scores, axis=0), axis=-1)
    log_p = held_out.reshape(len(start), -1, len(classes))
    loss = _loss(log_p, np.tile(y, len(reported)), start)
    found = minimize(loss, start, jac=True, bounds=[(0, None)] * len(start), method="L-BFGS-B")
    return np.asarray(found.x)


def _loss(log_p: Array, y: Labels, start: Array) -> Callable[[Array], tuple[float, Array]]:
    """log_p (learners, rows, classes) -> a function: weights to loss and gradient."""
    right = log_p[:, np.arange(len(y)), y]

    def loss(weights: Array) -> tuple[float, Array]:
        joint = log_softmax(np.tensordot(weights, log_p, 1), axis=-1)
        expected = (np.exp(joint) * log_p).sum(axis=-1)
        away = weights - start
        value = -joint[np.arange(len(y)), y].mean() + CAUTION * away @ away
        return float(value), np.asarray((expected - right).mean(axis=1) + 2 * CAUTION * away)

    return loss


def _folds(trials: Trials) -> Iterator[tuple[Labels, Labels]]:
    """(training, test) rows: leaves out groups if there are three or more, else trials.

    Folds whose training lacks a class are left out.
    """
    classes = np.unique(trials.y)
    groups = len(np.unique(trials.group))
    fewest = int(np.unique(trials.y, return_counts=True)[1].min())
    if groups >= 3:
        folds = GroupKFold(min(FOLDS, groups)).split(trials.y, trials.y, trials.group)
    elif fewest >= 2:
        folds = StratifiedKFold(min(FOLDS, fewest)).split(trials.y, trials.y)
    else:
        return
    for rows, out in folds:
        if len(np.unique(trials.y[rows])) == len(classes):
            yield rows, out


def _sum(
    fitted: list[Linear],
    weights: Array,
    learners: tuple[Learner, ...],
    band: int,
    others: Sequence[Linear] | None,
) -> Linear:
    own = [
        (weight, linear)
        for weight, linear, learner in zip(weights, fitted, learners, strict=False)
        if learner.band == band
    ]
    if others is not None:
        own.append((weights[-1], others[band]))
    return Linear(
        np.asarray(sum(weight * linear.weights for weight, linear in own)),
        np.asarray(sum(weight * linear.bias for weight, linear in own)),
    )
