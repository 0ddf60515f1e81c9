"""Lateness: how long after its turn a sample was stamped, and how much of that is usual.

A sample may be late by the network's whim, never early: the least lateness of the last samples is
what all of them would have without it. Where samples are lost, it rises and does not come back.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

FLOOR_S = 0.5
"""The least lateness is looked for in so much of the past: in more, a slow clock would show."""

SPREAD_S = 10.0
LARGEST_SPREAD_S = 0.25
"""What is remembered of how late samples were; a hiccup is not what is usual."""

FIRST_S = 2.0
FIRST_CHUNKS = 8
FIRST_DOUBT_S = 0.25
"""So long little is known of a stream, and a smaller rise is not doubted."""

TIMES_SPREAD = 2.0
LEAST_SAMPLES = 2.5

STAYS_S = 0.25
TIMES_CHUNK = 2.5
LARGEST_CHUNK_S = 1.0
"""A lateness that has not come down for so long stays; samples that came as one chunk are late as one."""

REGULAR_S = 1.0
REGULAR = 0.01
REGULAR_STEP_S = 10e-6
REGULAR_SAMPLES = 0.5
"""Stamps that a device counted follow each other to a hundredth of a sample, over many chunks: then
one missing sample shows. Stamps of arrivals never do."""

Floats = NDArray[np.float64]


class _Most:
    """The largest of the values of the last while."""

    def __init__(self, while_s: float) -> None:
        self._while_s = while_s
        self._kept: deque[tuple[float, float]] = deque()

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def value(self) -> float:
        return self._kept[0][1] if self._kept else 0.0

    def add(self, now: float, value: float) -> None:
        while self._kept and self._kept[-1][1] <= value:  # older and smaller: it tells no more
            self._kept.pop()
        self._kept.append((now, value))
        while self._kept[0][0] < now - self._while_s:
            self._kept.popleft()


class Lateness:
    """All in seconds; samples are given once, in their order."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._regular_step_s = min(REGULAR / rate, REGULAR_STEP_S)
        self.restart()

    def restart(self) -> None:
        """What was learnt holds no more: another life of the device, or its clock was set."""
        self._early, self._spread, self._chunk = _Most(FLOOR_S), _Most(SPREAD_S), _Most(SPREAD_S)
        self._first = self._now = self._odd_at = self._last_s = 0.0

    @property
    def floor_s(self) -> float:
        return -self._early.value

    @property
    def regular(self) -> bool:
        return self._now - self._odd_at >= REGULAR_S

    @property
    def doubt_s(self) -> float:
        """A rise above the floor that is more than usual."""
        least = REGULAR_SAMPLES if self.regular else LEAST_SAMPLES
        first_s = max(FIRST_S, FIRST_CHUNKS * self._chunk_s)
        known = self.regular or self._now - self._first >= first_s
        usual_s = TIMES_SPREAD * self._spread.value if known else FIRST_DOUBT_S
        return max(least / self._rate, usual_s)

    @property
    def stays_s(self) -> float:
        return max(STAYS_S, TIMES_CHUNK * self._chunk_s)

    @property
    def _chunk_s(self) -> float:
        return min(self._chunk.value, LARGEST_CHUNK_S)

    def usual(self, late: Floats, least_s: float) -> int:
        """How many samples come before one that rises by more than is usual, and than least_s."""
        before = self.floor_s if self._early else float(late[0])
        floor = np.minimum.accumulate(np.concatenate(([before], late[:-1])))
        odd = late - floor > max(self.doubt_s, least_s)
        return int(np.argmax(odd)) if odd.any() else len(late)

    def learn(self, late: Floats, stamps: Floats) -> None:
        """These samples were as usual."""
        first, last = float(stamps[0]), float(stamps[-1])
        if self._early and first < self._now - FLOOR_S:  # it runs backwards: another clock
            self.restart()
        if not self._early:
            self._first = self._odd_at = first
            self._last_s = float(late[0])
        odd = np.abs(np.diff(late, prepend=self._last_s)) > self._regular_step_s
        for stamp in stamps[odd].tolist():
            self._chunk.add(stamp, stamp - self._odd_at)
            self._odd_at = stamp
        self._last_s, self._now = float(late[-1]), last
        self._early.add(last, -float(late.min()))
        self._spread.add(last, min(float(late.max()) - self.floor_s, LARGEST_SPREAD_S))

    def settled(self, late_s: float) -> None:
        """Samples that rose have been accounted for: the next ones are compared with the last."""
        self._last_s = late_s
