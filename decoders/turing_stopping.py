"""When to stop looking: the confidence at which the score 200 * N / L should be highest.

After each trial the person's own trials are replayed: with what confidence would each have been
reported when, and how likely is it, with all of the trial's data in hand, that this was right?
No label is needed for that.
"""

from math import ceil, comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

THRESHOLDS = np.array([0.7, 0.75, 0.8, 0.84, 0.88, 0.91, 0.94, 0.96, 0.98, 0.99, 0.997])
BLOCK_TRIALS = (12, 16, 20, 25, 30)
"""3-5 rounds of 4-6 trials; the decoder is not told how many there will be."""
NEEDED = 0.8
MEMORY_TRIALS = 40
TRUST = 0.97
"""How much of what the decoder believes of itself is taken for granted: a missed block scores 0."""
EXPECTED_EACH = 5
EXPECTED_GROWTH = (0.4, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Growth of the log odds a second in trials of an unseen person: some tell little, some a lot."""


class StoppingRule:
    """Keeps how past trials would have ended at each threshold, and which would have been best."""

    def __init__(self, steps: int, step_s: float, seed: int = 0) -> None:
        self._step_s = step_s
        chance = np.random.default_rng(seed)
        expected = EXPECTED_EACH * EXPECTED_GROWTH
        paths = [_expected_path(growth, step_s, steps, chance) for growth in expected]
        self._replays = [_replay(path) for path in paths]
        self.threshold = self._best()

    def learn(self, path: Array) -> None:
        """path (steps, classes): the posterior after each packet of a trial, to its end."""
        self._replays = [*self._replays, _replay(path)][-MEMORY_TRIALS:]
        self.threshold = self._best()

    def _best(self) -> float:
        steps, right = np.mean(self._replays, axis=0)
        doubt = np.sqrt(right * (1 - right) / len(self._replays))
        chances = np.array([_reaching(p) for p in np.maximum(TRUST * right - doubt, 0.0)])
        scores = right / (self._step_s * steps) * chances
        return float(THRESHOLDS[int(np.argmax(scores))])


def _expected_path(growth: float, step_s: float, steps: int, chance: np.random.Generator) -> Array:
    """Two tasks and calibrated evidence: log odds with a drift and twice that variance."""
    moves = chance.normal(growth * step_s, np.sqrt(2 * growth * step_s), steps)
    right = 1 / (1 + np.exp(-np.clip(np.cumsum(moves), -30.0, 30.0)))
    return np.column_stack([right, 1 - right])


def _replay(path: Array) -> Array:
    """For each threshold, (2, thresholds): after how many packets it would have been reported, and how
    likely that was right, half as believed then and half as it looks from the trial's end."""
    sure = path.max(axis=1)[:, None] >= THRESHOLDS
    step = np.where(sure.any(axis=0), sure.argmax(axis=0), len(path) - 1)
    task = path[step].argmax(axis=1)
    return np.array([step + 1.0, (path[step, task] + path[-1, task]) / 2])


def _reaching(right: float) -> float:
    """The chance that a block of unknown length gets the share of right answers that it needs."""
    return float(np.mean([_at_least(ceil(NEEDED * n), n, right) for n in BLOCK_TRIALS]))


def _at_least(k: int, n: int, p: float) -> float:
    return float(sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)))
