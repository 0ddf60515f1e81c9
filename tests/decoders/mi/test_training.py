"""Stacking weights follow the prediction of held-out trials; the prior weight follows the sessions."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import log_softmax

from decoders.mi.stacking import OTHERS_WEIGHT, Learner, Linear, Trials, _loss, _weights, stack
from decoders.mi.training import USUAL_TRIALS, prior_trials

pytestmark = pytest.mark.slow

LEARNERS = (Learner(0, 1.0, 0.5), Learner(1, 1.0, 0.5))


def made(informative: float, n: int = 30, sessions: int = 1) -> Trials:
    """Band 0 shows the class by so much, band 1 is noise; two windows."""
    chance = np.random.default_rng(0)
    y = np.tile([1, 2, 3], n // 3)
    x = chance.normal(size=(2, 2, n, 6))
    x[0, :, np.arange(n), y - 1] += informative
    return Trials(x, y, np.arange(n) * sessions // n)


@pytest.mark.parametrize("sessions", [1, 3])
def test_a_band_that_shows_the_class_is_used_and_noise_is_not(sessions: int) -> None:
    used, ignored = _weights(made(3.0, sessions=sessions), LEARNERS, [0, 1], seed=0)
    assert used > 0.5 > ignored >= 0


def test_where_nothing_shows_the_class_all_are_used_less() -> None:
    assert max(_weights(made(0.0), LEARNERS, [0, 1], seed=0)) < 0.5


def of_others(sign: float) -> list[Linear]:
    """Other people's classifiers: band 0 shows the class, by its first three features."""
    rows = sign * 2 * np.eye(3, 6)
    return [Linear(rows, np.zeros(3)), Linear(np.zeros((3, 6)), np.zeros(3))]


def test_other_people_count_as_far_as_the_persons_own_trials_agree_with_them() -> None:
    own = made(1.0, n=18)
    helpful = _weights(own, LEARNERS, [0, 1], 0, of_others(1.0))[-1]
    harmful = _weights(own, LEARNERS, [0, 1], 0, of_others(-1.0))[-1]
    assert helpful > OTHERS_WEIGHT > harmful
    band, _ = stack(own, LEARNERS, [0, 1], 0, of_others(1.0))
    unseen = made(1.0, n=300)
    alone, _ = stack(own, LEARNERS, [0, 1], 0)
    shares = [
        np.mean(each.scores(unseen.x[0, 0]).argmax(axis=1) + 1 == unseen.y)
        for each in (band, alone)
    ]
    assert shares[0] > shares[1]


def test_too_few_trials_to_leave_any_out_keep_the_start() -> None:
    assert _weights(made(3.0, n=3), LEARNERS, [0, 1], seed=0).tolist() == [0.5, 0.5]


def test_the_bands_sum_is_what_the_learners_say_together() -> None:
    """Two learners of one band become one: scores are linear."""
    trials = made(2.0)
    twice = (Learner(0, 1.0, 0.5), Learner(0, 0.1, 0.5), Learner(1, 1.0, 0.0))
    first, second = stack(trials, twice, [0], seed=0)
    x = trials.x[:, 0]
    labels = (first.scores(x[0]) + second.scores(x[1])).argmax(axis=1) + 1
    assert np.mean(labels == trials.y) > 0.8


def test_the_gradient_is_that_of_the_loss() -> None:
    chance = np.random.default_rng(1)
    log_p = log_softmax(chance.normal(size=(3, 20, 3)), axis=-1)
    loss = _loss(log_p, chance.integers(3, size=20), np.array([0.5, 0.5, 0.0]))
    at = np.array([0.3, 0.9, 0.2])
    assert check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], at) < 1e-5


def sessions(count: int, trials: int, shift: float, seed: int = 0) -> list[np.ndarray]:
    """Covariances of 100 samples of 5 leads; each session's leads are scaled a little otherwise."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        scale = np.exp(shift * rng.normal(size=5))
        x = rng.normal(size=(trials, 100, 5)) * scale
        made.append(x.transpose(0, 2, 1) @ x / 100)
    return made


def test_sessions_that_agree_are_worth_about_all_their_trials() -> None:
    found = [prior_trials(sessions(3, 20, shift=0, seed=seed)) for seed in range(5)]
    assert 30 < np.mean(found) <= 60


def test_the_more_sessions_differ_the_less_their_mean_is_worth() -> None:
    worth = [
        np.mean([prior_trials(sessions(3, 20, shift, seed)) for seed in range(5)])
        for shift in (0.0, 0.1, 0.5)
    ]
    assert worth[0] > 1.5 * worth[1] > 1.5 * worth[2]
    assert worth[2] < 5


@pytest.mark.parametrize("few", [sessions(1, 20, 0), [*sessions(1, 20, 0), *sessions(1, 1, 0)]])
def test_of_one_session_nothing_is_known(few: list[np.ndarray]) -> None:
    assert prior_trials(few) == USUAL_TRIALS
