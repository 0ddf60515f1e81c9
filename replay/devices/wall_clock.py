"""From Unix time, which may be stepped at any moment, to LSL's steady clock."""

import time
from collections.abc import Callable

PAIRS = 5
MOVED_S = 1e-3
"""An offset that moved by more is a clock that was set; by less, it is our own measurement."""


class WallClock:
    """Keeps the offset between the two clocks; `check` says by how much it was stepped."""

    def __init__(self, steady: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._steady, self._wall = steady, wall
        self.offset_s = self._measure()

    def check(self) -> float:
        """Measure again: 0.0 where the clocks run on together, else the step that was taken."""
        moved = self._measure() - self.offset_s
        if abs(moved) <= MOVED_S:
            return 0.0
        self.offset_s += moved
        return moved

    def _measure(self) -> float:
        """The tightest of a few pairs: a reading between two others that lie close together."""
        pairs = []
        for _ in range(PAIRS):
            before, wall, after = self._steady(), self._wall(), self._steady()
            pairs.append((after - before, (before + after) / 2 - wall))
        return min(pairs)[1]
