"""A timeline numbers the samples of a device and tells when each was taken, over all gaps.

Nothing is invented to fill a gap: the numbers jump by what was lost. Where the device counts
(JellyFish, BrainFlow) that is exact; where it does not, the time that passed says about how many.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from bci_stream.packet import FloatArray, Triggers
from replay.devices.chunk import Chunk

LEAST_STEP = 0.1
"""Stamps never run backwards: each is later than the one before by this share of their usual distance."""


class SampleClock(Protocol):
    @property
    def offset_s(self) -> float: ...
    @property
    def drift_ppm(self) -> float: ...
    def restart(self) -> None:
        """A gap of unknown length: what was learnt before it holds no more."""

    def observe(self, index: int, arrival: float) -> None:
        """Sample `index` was the last one that had come by `arrival`."""

    def stamp(self, index: int) -> float:
        """LSL time of sample `index`; numbers only grow, and so do the stamps."""


class RisingStamps:
    """Keeps stamps from running backwards, however the clock that gives them is corrected."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._last: tuple[int, float] | None = None

    def after_the_last(self, index: int, stamp: float) -> float:
        if self._last is not None:
            last_index, last = self._last
            stamp = max(stamp, last + LEAST_STEP * (index - last_index) / self._rate)
        self._last = (index, stamp)
        return stamp


class GivenClock:
    """For a device whose stamps are good already (another LSL stream): they are kept."""

    drift_ppm = 0.0

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._known = (0, 0.0)
        self._rising = RisingStamps(rate)

    @property
    def offset_s(self) -> float:
        index, stamp = self._known
        return stamp - index / self._rate

    def restart(self) -> None:
        pass

    def observe(self, index: int, arrival: float) -> None:
        self._known = (index, arrival)

    def stamp(self, index: int) -> float:
        known, stamp = self._known
        return self._rising.after_the_last(index, stamp - (known - index) / self._rate)


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


DISBELIEF_S = 10.0
"""A device that claims a gap longer than the time that passed, by more than this, counts anew."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A chunk with its place: start counts from the first sample of all; lost stands before it."""

    samples: FloatArray
    triggers: Triggers
    start: int
    lost: int = 0
    exact: bool = True

    @property
    def stop(self) -> int:
        return self.start + len(self.samples)


class SampleTimeline:
    """clock: fitted to arrivals, unless the device's own stamps are to be kept (`GivenClock`)."""

    def __init__(self, rate: float, clock: SampleClock | None = None) -> None:
        self.rate = rate
        self.clock: SampleClock = clock or FittedClock(rate)
        self._next = 0
        self._last_end: float | None = None

    def place(self, chunk: Chunk, arrival: float) -> Placed:
        """arrival: when the chunk was received, for a device that stamps nothing itself."""
        end = self.end_of(chunk, arrival)
        lost, exact = self._lost(chunk, end)
        placed = Placed(chunk.samples, chunk.triggers, self._next + lost, lost, exact)
        if not exact:  # a gap that was counted keeps its place on the line that was fitted
            self.clock.restart()
        self._next, self._last_end = placed.stop, end
        self.clock.observe(placed.stop - 1, end)
        return placed

    def end_of(self, chunk: Chunk, arrival: float) -> float:
        """When its last sample was taken, as far as this chunk alone tells."""
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
"""The most it moves a second: the clocks of two machines drift apart by less than half of that,"""


class ClockOffset:
    """measure: asks the transport. Begins with the first measurement as it is."""

    def __init__(self, measure: Callable[[], float], now: float) -> None:
        self._measure = measure
        self._offset_s = self._target_s = measure()
        self._moved_at = self._measured_at = now

    def at(self, now: float) -> float:
        """The offset, in seconds; `now` only grows."""
        if now - self._measured_at >= MEASURE_EVERY_S:
            self._target_s, self._measured_at = self._measure(), now
        most_s = min(SLEW_S, OFFSET_SLEW_RATE * (now - self._moved_at))
        self._offset_s += max(-most_s, min(most_s, self._target_s - self._offset_s))
        self._moved_at = now
        return self._offset_s


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
