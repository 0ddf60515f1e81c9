"""A board's package counter: it counts up and wraps; where it jumps, samples were lost."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CounterRule:
    """modulus: where it wraps. step: between packages. samples: that share a package."""

    modulus: int
    step: int = 1
    samples: int = 1

    @property
    def cycle_samples(self) -> int:
        """Losing exactly so many can't be seen in the counter: time must tell."""
        return self.modulus // self.step * self.samples


class PackageCounter:
    def __init__(self, rule: CounterRule) -> None:
        self._rule = rule
        self.restart()

    def restart(self) -> None:
        self._last: float | None = None

    def step(self, counts: NDArray[np.float64]) -> NDArray[np.int64]:
        """(n,): how many samples are missing before each one, but for whole cycles.

        -1 where a number comes twice: the counter stood still, or a cycle less one was lost.
        """
        if not len(counts):
            return np.zeros(0, dtype=np.int64)
        rule = self._rule
        before = counts[0] - rule.step if self._last is None else self._last
        self._last = float(counts[-1])
        passed = np.diff(counts, prepend=before)
        packages = np.mod(np.round(passed), rule.modulus) // rule.step
        together = (packages == 0) & (rule.samples > 1)
        return np.where(together, 0, (packages - 1) * rule.samples).astype(np.int64)
