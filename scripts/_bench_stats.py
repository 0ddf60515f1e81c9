"""Spread of a score: trials drawn again with replacement."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
DRAWS = 500


def bootstrap(
    items: Sequence[Item], score: Callable[[Sequence[Item]], float], seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of the score over draws of the items."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(len(items), size=(DRAWS, len(items)))
    scores = [score([items[i] for i in pick]) for pick in picks]
    low, high = np.percentile(scores, (2.5, 97.5))
    return float(low), float(high)
