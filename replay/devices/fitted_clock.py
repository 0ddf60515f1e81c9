"""When was a sample taken? A line through the quickest arrivals answers that.

A chunk arrives late by the network's whim, never early, so the quickest ones lie on the true line.
The line's slope (the device's clock against ours) is the lower edge of the quickest arrivals of the
last minute, its height the quickest one of the last 10 seconds. What is stamped follows that line
slowly, so that stamps never jump and never run backwards. Only where samples would be stamped long after
they came (a backlog was the first to arrive) the line is taken at once.
"""

from collections import deque
from itertools import pairwise

from replay.devices.sample_clock import RisingStamps

HEIGHT_WINDOW_S = 10.0
SLOPE_WINDOW_S = 60.0
BIN_S = 0.5
"""Of each half second the quickest arrival is kept: the rest tells nothing."""

SLOPE_AFTER_S = 5.0
LARGEST_SLOPE = 2e-3
SLEW_S = 100e-6
"""The most a stamp moves at one arrival,"""
SLEW_RATE = 2.5e-3
"""and the most it moves a second: the same 100 us where chunks are 40 ms."""
LONG_AFTER_S = 5e-3


class FittedClock:
    """Times for the samples of one device, numbered from any number upwards."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._rising = RisingStamps(rate)
        self._quickest: deque[tuple[float, float]] = deque()
        self.restart()

    def restart(self) -> None:
        """After a gap of unknown length: what was learnt of the height holds no more."""
        self._quickest.clear()
        self._height_s: float | None = None
        self._slope = 0.0
        self._target = (0.0, 0.0)
        self._at_s = 0.0

    @property
    def offset_s(self) -> float:
        """LSL time at which sample 0 was (or would have been) taken."""
        return (self._height_s or 0.0) - self._slope * self._at_s

    @property
    def drift_ppm(self) -> float:
        """How much slower than its nominal rate the device runs; negative: faster."""
        return self._slope * 1e6

    def observe(self, index: int, arrival: float) -> None:
        """Sample `index` was the last one that had come by `arrival`."""
        at_s = index / self.rate
        if self._keep(at_s, arrival - at_s):
            self._fit(at_s)
        target_at_s, target_s = self._target
        target_s += self._slope * (at_s - target_at_s)
        if self._height_s is None:
            self._height_s = target_s
        else:
            elapsed_s = at_s - self._at_s
            here_s = self._height_s + self._slope * elapsed_s
            most = min(SLEW_S, SLEW_RATE * elapsed_s)
            slewed_s = here_s + max(-most, min(most, target_s - here_s))
            self._height_s = min(slewed_s, target_s + LONG_AFTER_S)
        self._at_s = at_s

    def stamp(self, index: int) -> float:
        """LSL time of sample `index`; call it with growing numbers."""
        at_s = index / self.rate
        stamp = at_s + (self._height_s or 0.0) + self._slope * (at_s - self._at_s)
        return self._rising.after_the_last(index, stamp)

    def _keep(self, at_s: float, delay: float) -> bool:
        """True where the line has to be fitted anew: most arrivals are late and tell nothing."""
        quickest = self._quickest
        if quickest and int(quickest[-1][0] / BIN_S) == int(at_s / BIN_S):
            if delay > quickest[-1][1]:
                return False
            quickest[-1] = (at_s, delay)
        else:
            quickest.append((at_s, delay))
        while quickest[0][0] < at_s - SLOPE_WINDOW_S:
            quickest.popleft()
        return True

    def _fit(self, at_s: float) -> None:
        self._slope = self._fit_slope()
        height_s = min(
            delay + self._slope * (at_s - t)
            for t, delay in self._quickest
            if t >= at_s - HEIGHT_WINDOW_S
        )
        self._target = (at_s, height_s)

    def _fit_slope(self) -> float:
        first, last = self._quickest[0][0], self._quickest[-1][0]
        if last - first < SLOPE_AFTER_S:
            return 0.0
        middle = (first + last) / 2
        edge = _lower_edge(list(self._quickest))
        for (x0, y0), (x1, y1) in pairwise(edge):
            if x1 >= middle:
                return max(-LARGEST_SLOPE, min(LARGEST_SLOPE, (y1 - y0) / (x1 - x0)))
        return 0.0


def _lower_edge(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The lower convex hull of points that are sorted by x."""
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) >= 2:
            (x0, y0), (x1, y1) = hull[-2:]
            if (x1 - x0) * (y - y0) > (y1 - y0) * (x - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull
