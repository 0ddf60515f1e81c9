"""Numbers and stamps the samples of a device, across gaps; clocks and clock offsets.

Gaps are not filled: sample numbers jump by the number of lost samples. It is exact if the device
counts its samples (JellyFish, BrainFlow); otherwise it is estimated from the time that passed.
"""

import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

from replay.devices.chunk import Chunk, Placed

LEAST_STEP = 0.1
"""Smallest distance of two stamps, as a share of their nominal distance: they never run backwards."""


class SampleClock(Protocol):
    """Gives samples their LSL times."""

    @property
    def rate(self) -> float:
        """Nominal rate in Hz."""

    @property
    def offset_s(self) -> float:
        """LSL time of sample 0."""

    @property
    def drift_ppm(self) -> float:
        """How much slower than its nominal rate the device runs; negative: faster."""

    @property
    def at_limit(self) -> bool:
        """The drift is the largest that is followed, so the nominal rate may be wrong."""

    def restart(self) -> None:
        """Forget what was learnt: after a gap of unknown length."""

    def observe(self, index: int, arrival: float) -> None:
        """Sample `index` is the last one that was received by `arrival`."""

    def stamp(self, index: int) -> float:
        """LSL time of sample `index`. Call it with increasing numbers; stamps increase too."""


class RisingStamps:
    """Keeps stamps from running backwards when their clock is corrected."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._last: tuple[int, float] | None = None

    def next(self, index: int, stamp: float) -> float:
        if self._last is not None:
            last_index, last = self._last
            stamp = max(stamp, last + LEAST_STEP * (index - last_index) / self._rate)
        self._last = (index, stamp)
        return stamp


class GivenClock:
    """Keeps the stamps of a device that stamps well itself (another LSL stream)."""

    drift_ppm = 0.0
    at_limit = False

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._known = (0, 0.0)
        self._rising = RisingStamps(rate)

    @property
    def offset_s(self) -> float:
        index, stamp = self._known
        return stamp - index / self.rate

    def restart(self) -> None:
        pass

    def observe(self, index: int, arrival: float) -> None:
        self._known = (index, arrival)

    def stamp(self, index: int) -> float:
        known, stamp = self._known
        return self._rising.next(index, stamp - (known - index) / self.rate)


HEIGHT_WINDOW_S = 10.0
SLOPE_WINDOW_S = 60.0
BIN_S = 0.5
"""Of each interval this long, only the quickest arrival is kept."""

SLOPE_AFTER_S = 5.0
LARGEST_SLOPE = 2e-3
SLEW_S = 100e-6
"""The most by which one arrival moves the stamps,"""
SLEW_RATE = 2.5e-3
"""and the most by which they move in a second: 100 us for chunks of 40 ms."""
LONG_AFTER_S = 5e-3


class FittedClock:
    """Fits a line (offset, drift) to the quickest arrivals: chunks arrive late, never early."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._rising = RisingStamps(rate)
        self._quickest: deque[tuple[float, float]] = deque()
        self.restart()

    def restart(self) -> None:
        self._quickest.clear()
        self._height_s: float | None = None
        self._slope = 0.0
        self._target = (0.0, 0.0)
        self._at_s = 0.0

    @property
    def offset_s(self) -> float:
        return (self._height_s or 0.0) - self._slope * self._at_s

    @property
    def drift_ppm(self) -> float:
        return self._slope * 1e6

    @property
    def at_limit(self) -> bool:
        return abs(self._slope) >= 0.99 * LARGEST_SLOPE

    def observe(self, index: int, arrival: float) -> None:
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
        at_s = index / self.rate
        stamp = at_s + (self._height_s or 0.0) + self._slope * (at_s - self._at_s)
        return self._rising.next(index, stamp)

    def _keep(self, at_s: float, delay: float) -> bool:
        """Keep an arrival if it is the quickest of its interval; then the line must be fitted again."""
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


DISBELIEF_S = 10.0
"""A counted gap that exceeds the time that passed by more than this is a restarted counter."""


class SampleTimeline:
    """Gives chunks their sample numbers and keeps the clock informed. Default clock: fitted."""

    def __init__(self, rate: float, clock: SampleClock | None = None) -> None:
        self.rate = rate
        self.clock: SampleClock = clock or FittedClock(rate)
        self._next = 0
        self._last_end: float | None = None

    def place(self, chunk: Chunk, arrival: float) -> Placed:
        """Number the next chunk. arrival: LSL time at which it was received."""
        end = self.end_of(chunk, arrival)
        lost, exact = self._lost(chunk, end)
        placed = Placed(chunk.samples, chunk.triggers, self._next + lost, lost, exact)
        if not exact:  # after a counted gap the fitted line still holds
            self.clock.restart()
        self._next, self._last_end = placed.stop, end
        self.clock.observe(placed.stop - 1, end)
        return placed

    def end_of(self, chunk: Chunk, arrival: float) -> float:
        """LSL time of its last sample, judged by this chunk alone."""
        return arrival - chunk.newer / self.rate if chunk.stamp is None else chunk.stamp

    def stamp(self, index: int) -> float:
        return self.clock.stamp(index)

    def _lost(self, chunk: Chunk, end: float) -> tuple[int, bool]:
        if self._last_end is None:
            return 0, True
        passed = round((end - self._last_end) * self.rate) - chunk.n
        if chunk.lost is not None and chunk.lost <= passed + DISBELIEF_S * self.rate:
            return chunk.lost, True
        return max(0, passed), False


MEASURE_EVERY_S = 5.0
OFFSET_SLEW_RATE = 2e-4
"""The most by which an offset moves in a second; clocks of two machines drift by less than half of it."""


class ClockOffset:
    """Offset of another machine's LSL clock, measured every 5 s and followed slowly."""

    def __init__(self, measure: Callable[[], float], now: float) -> None:
        self._measure = measure
        self._offset_s = self._target_s = measure()
        self._moved_at = self._measured_at = now

    def at(self, now: float) -> float:
        """The offset in seconds. Call it with increasing times."""
        if now - self._measured_at >= MEASURE_EVERY_S:
            self._target_s, self._measured_at = self._measure(), now
        most_s = min(SLEW_S, OFFSET_SLEW_RATE * (now - self._moved_at))
        self._offset_s += max(-most_s, min(most_s, self._target_s - self._offset_s))
        self._moved_at = now
        return self._offset_s


PAIRS = 5
MOVED_S = 1e-3
"""A larger change of the offset means that the clock was set; a smaller one is measurement error."""


class WallClock:
    """Offset between the computer's wall clock (Unix time) and LSL's steady clock."""

    def __init__(self, steady: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._steady, self._wall = steady, wall
        self.offset_s = self._measure()

    def check(self) -> float:
        """Measure again; returns by how many seconds the wall clock was set, 0.0 if it was not."""
        moved = self._measure() - self.offset_s
        if abs(moved) <= MOVED_S:
            return 0.0
        self.offset_s += moved
        return moved

    def _measure(self) -> float:
        """The tightest of a few readings: wall time between two steady times."""
        pairs = []
        for _ in range(PAIRS):
            before, wall, after = self._steady(), self._wall(), self._steady()
            pairs.append((after - before, (before + after) / 2 - wall))
        return min(pairs)[1]
