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
        """Losing exactly so many can't be seen in the counter."""
        return self.modulus // self.step * self.samples


class PackageCounter:
    def __init__(self, rule: CounterRule, rate: float) -> None:
        self._rule, self._rate = rule, rate
        self.restart()

    def restart(self) -> None:
        self._last: tuple[int, float] | None = None

    def step(
        self, counts: NDArray[np.float64], stamps: NDArray[np.float64]
    ) -> list[tuple[int, int]]:
        """(offset, samples lost before it) of each gap; stamps tell how often it wrapped."""
        if not len(counts):
            return []
        first = self._last or (int(counts[0]) - self._rule.step, float(stamps[0]))
        self._last = (int(counts[-1]), float(stamps[-1]))
        before = np.concatenate(([first[0]], counts[:-1]))
        passed = np.diff(np.concatenate(([first[1]], stamps)))
        packages = np.mod(counts - before, self._rule.modulus) / self._rule.step
        same = (packages == 0) & (self._rule.samples > 1)
        lost = np.where(same, 0, packages - 1) * self._rule.samples
        lost = np.where(packages == 0, np.where(same, 0, self._rule.cycle_samples - 1), lost)
        # A silence longer than the counter's cycle hides whole cycles: time tells how many.
        cycles = np.round((passed * self._rate - 1 - lost) / self._rule.cycle_samples)
        lost = lost + np.maximum(0, cycles) * self._rule.cycle_samples
        return [(int(i), round(lost[i])) for i in np.flatnonzero(lost > 0)]
