"""The training's mean is worth as many trials as the training's sessions agree on it."""

import numpy as np
import pytest

from decoders.mi.training import USUAL_TRIALS, prior_trials


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
