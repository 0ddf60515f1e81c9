"""Spread of a score, and of the difference of two: units drawn again with replacement."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
DRAWS = 500


def bootstrap(
    items: Sequence[Item], score: Callable[[Sequence[Item]], float], seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of the score over draws of the items."""
    return _interval([score([items[i] for i in pick]) for pick in _picks(len(items), seed)])


def paired_bootstrap(
    ours: Sequence[Item],
    theirs: Sequence[Item],
    score: Callable[[Sequence[Item]], float],
    seed: int = 0,
) -> tuple[float, float]:
    """The 95 % interval of score(ours) - score(theirs): the same units are drawn for both, so what
    makes a unit hard for everybody cancels."""
    return _interval(
        [
            score([ours[i] for i in pick]) - score([theirs[i] for i in pick])
            for pick in _picks(len(ours), seed)
        ]
    )


def _picks(n: int, seed: int) -> Iterator[NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    yield from rng.integers(n, size=(DRAWS, n))


def _interval(scores: Sequence[float]) -> tuple[float, float]:
    finite = np.array([score for score in scores if np.isfinite(score)])
    if not len(finite):
        return float("nan"), float("nan")
    low, high = np.percentile(finite, (2.5, 97.5))
    return float(low), float(high)
