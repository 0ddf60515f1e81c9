"""Finds gaps in a stream of samples by their time.

After a silence, lost samples and samples that were only delayed and now come in a burst look alike at
first. So the samples after a rise of the delay are held back until the delay has come down again
(nothing was lost) or stays (as many samples were lost as it stays above the former delay).

`GapFinder` works on the stamps of single samples (BrainFlow, LSL); for devices without stamps (Neuracle)
`replay.devices.live` does the same with the arrival of chunks.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Triggers

FLOOR_S = 0.5
"""The smallest delay is sought in this much of the past; over more, clock drift would show."""

SPREAD_S = 10.0
LARGEST_SPREAD_S = 0.25
"""Window in which the usual spread of delays is learnt, and its largest value."""

FIRST_S = 2.0
FIRST_CHUNKS = 8
FIRST_SUSPECT_S = 0.25
"""During this time (or number of chunks) of a stream, smaller rises are not suspected."""

TIMES_SPREAD = 2.0
LEAST_SAMPLES = 2.5

STAYS_S = 0.25
TIMES_CHUNK = 2.5
LARGEST_CHUNK_S = 1.0
"""A delay stays if it has not come down for STAYS_S, or for TIMES_CHUNK chunks."""

REGULAR_S = 1.0
REGULAR = 0.01
REGULAR_STEP_S = 10e-6
REGULAR_SAMPLES = 0.5
"""Stamps made by a device's counter are regular to 1 % of a sample over many chunks, so that a single
missing sample shows. Stamps made on arrival never are."""

SecondsArray = NDArray[np.float64]


class _RunningMax:
    """The largest of the values of the last window_s seconds."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._kept: deque[tuple[float, float]] = deque()

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def value(self) -> float:
        return self._kept[0][1] if self._kept else 0.0

    def add(self, now: float, value: float) -> None:
        while self._kept and self._kept[-1][1] <= value:  # older and smaller: never the maximum
            self._kept.pop()
        self._kept.append((now, value))
        while self._kept[0][0] < now - self._window_s:
            self._kept.popleft()


class DelayStatistics:
    """What is usual of the delays of samples (stamp - number / rate), in seconds."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._regular_step_s = min(REGULAR / rate, REGULAR_STEP_S)
        self.restart()

    def restart(self) -> None:
        """Forget everything: after a reconnect, or when the clock of the stamps was set."""
        self._negative_floor = _RunningMax(FLOOR_S)
        self._spread, self._chunk = _RunningMax(SPREAD_S), _RunningMax(SPREAD_S)
        self._first = self._now = self._irregular_at = self._last_s = 0.0

    @property
    def floor_s(self) -> float:
        """The smallest delay of the last while."""
        return -self._negative_floor.value

    @property
    def regular(self) -> bool:
        return self._now - self._irregular_at >= REGULAR_S

    @property
    def suspect_s(self) -> float:
        """The smallest rise above the floor that is unusual."""
        least = REGULAR_SAMPLES if self.regular else LEAST_SAMPLES
        first_s = max(FIRST_S, FIRST_CHUNKS * self._chunk_s)
        known = self.regular or self._now - self._first >= first_s
        usual_s = TIMES_SPREAD * self._spread.value if known else FIRST_SUSPECT_S
        return max(least / self._rate, usual_s)

    @property
    def stays_s(self) -> float:
        return max(STAYS_S, TIMES_CHUNK * self._chunk_s)

    @property
    def _chunk_s(self) -> float:
        return min(self._chunk.value, LARGEST_CHUNK_S)

    def count_usual(self, delays: SecondsArray, least_s: float) -> int:
        """Number of samples before the first with an unusual rise, which is also above least_s."""
        before = self.floor_s if self._negative_floor else float(delays[0])
        floor = np.minimum.accumulate(np.concatenate(([before], delays[:-1])))
        unusual = delays - floor > max(self.suspect_s, least_s)
        return int(np.argmax(unusual)) if unusual.any() else len(delays)

    def learn(self, delays: SecondsArray, stamps: SecondsArray) -> None:
        """Learn from samples with usual delays."""
        first, last = float(stamps[0]), float(stamps[-1])
        if self._negative_floor and first < self._now - FLOOR_S:  # backwards: another clock
            self.restart()
        if not self._negative_floor:
            self._first = self._irregular_at = first
            self._last_s = float(delays[0])
        irregular = np.abs(np.diff(delays, prepend=self._last_s)) > self._regular_step_s
        for stamp in stamps[irregular].tolist():
            self._chunk.add(stamp, stamp - self._irregular_at)
            self._irregular_at = stamp
        self._last_s, self._now = float(delays[-1]), last
        self._negative_floor.add(last, -float(delays.min()))
        self._spread.add(last, min(float(delays.max()) - self.floor_s, LARGEST_SPREAD_S))

    def continue_from(self, delay_s: float) -> None:
        """Compare the next sample with this delay: a rise before it has been accounted for."""
        self._last_s = delay_s


@dataclass(frozen=True, slots=True)
class SampleRun:
    """Stamped samples. samples: (n, leads). codes: (n,), 0 for none. stamps: (n,) in seconds.

    lost: (n,), number of samples missing before each one by the device's own counter; -1 if the
        counter did not advance.
    """

    samples: FloatArray
    codes: NDArray[np.int64]
    stamps: SecondsArray
    lost: NDArray[np.int64]

    @property
    def n(self) -> int:
        return len(self.stamps)

    @property
    def triggers(self) -> Triggers:
        return tuple((int(i), int(self.codes[i])) for i in np.flatnonzero(self.codes))

    def cut(self, begin: int, end: int | None = None) -> "SampleRun":
        if begin == 0 and end in (None, self.n):
            return self
        span = slice(begin, end)
        return SampleRun(self.samples[span], self.codes[span], self.stamps[span], self.lost[span])

    def then(self, more: "SampleRun") -> "SampleRun":
        return SampleRun(
            np.concatenate((self.samples, more.samples)),
            np.concatenate((self.codes, more.codes)),
            np.concatenate((self.stamps, more.stamps)),
            np.concatenate((self.lost, more.lost)),
        )


REGULAR_STAYS_S = 0.12
"""With regular stamps, a rise by whole samples stays if it has not come down for this long."""

MOST_WAITS = 4
"""Samples are held back for the silence and so many waits; then they are released."""

GIVE_UP = 10
"""After so many times that long, the smallest rise that was seen is taken as the loss."""

MOST_OF_A_CYCLE = 0.75
"""With a counter, a rise below this share of its cycle is a delay: only whole cycles can be lost."""

AT_ONCE_S = 0.1
"""Samples are judged in pieces of this length, each by what was learnt before it."""

FoundGap = tuple[SampleRun, int | None]
"""Samples without a gap inside; number of samples missing before them, None if not counted."""


@dataclass
class _SuspectedGap:
    """State since a sample with an unusual delay.

    floor_s: delay before it. usual_s: largest rise that is usual. stays: number of samples without a
    fall after which the delay stays. low_s: the level it last fell or rose to. least_s: smallest delay
    since then. lowest_s: smallest delay of all.
    """

    floor_s: float
    usual_s: float
    sample_s: float
    stays: float
    most: float
    low_s: float
    least_s: float
    lowest_s: float
    still: int = 0
    samples: int = 0
    decided: bool = False

    @property
    def rise_s(self) -> float:
        return self.least_s - self.floor_s

    def step(self, delays: SecondsArray) -> int:
        """Returns the number of samples until it is decided, or all of them."""
        for i, delay_s in enumerate(delays.tolist()):
            self.samples += 1
            self.still += 1
            self.least_s, self.lowest_s = min(self.least_s, delay_s), min(self.lowest_s, delay_s)
            if delay_s > self.low_s + self.usual_s:  # delayed again before it came down
                self.low_s, self.least_s, self.still = delay_s, delay_s, 0
            elif delay_s <= self.low_s - self.sample_s:
                self.low_s, self.still = delay_s, 0
            if self.samples >= GIVE_UP * self.most:  # it neither stays nor comes down
                self.least_s, self.decided = self.lowest_s, True
            if self.rise_s <= self.usual_s or self.still >= self.stays:
                self.decided = True
            if self.decided:
                return i + 1
        return len(delays)


class GapFinder:
    """Finds gaps by the stamps of samples.

    cycle_samples: for a device that counts its samples, the length of its counter's cycle; only whole
    cycles are then sought by time. None: the device does not count.
    """

    def __init__(self, rate: float, cycle_samples: int | None = None) -> None:
        self.rate, self._cycle = rate, cycle_samples
        self._at_once = max(1, round(AT_ONCE_S * rate))
        self._delays = DelayStatistics(rate)
        self._number = 0
        self._unknown_loss = False
        self.restart()

    def restart(self, unknown_loss: bool = False) -> None:
        """The device or its clock starts again. Call `flush` first.

        unknown_loss: an unknown number of samples is missing before the next one.
        """
        self._delays.restart()
        self._suspected: _SuspectedGap | None = None
        self._held: SampleRun | None = None
        self._unknown_loss |= unknown_loss

    def step(self, run: SampleRun) -> Iterator[FoundGap]:
        """Add samples; yields what can be released, in order."""
        for begin in range(0, run.n, self._at_once):
            yield from self._step(run.cut(begin, min(begin + self._at_once, run.n)))

    def step_untimed(self, run: SampleRun) -> Iterator[FoundGap]:
        """Add samples whose stamps can't be used: only counted gaps. Call `restart` first."""
        self._number += run.n + int(np.maximum(run.lost, 0).sum())
        return self._pieces(run, 0)

    def flush(self) -> Iterator[FoundGap]:
        """Release what is held back, decided by what is known now."""
        if self._suspected is None or self._held is None:
            return
        suspected = self._suspected
        lost = self._count_lost(suspected.rise_s * self.rate, suspected.usual_s * self.rate)
        self._number += lost
        held, self._suspected, self._held = self._held, None, None
        self._delays.continue_from(float(held.stamps[-1]) - self._number / self.rate)
        yield from self._pieces(held, lost)

    def _step(self, run: SampleRun) -> Iterator[FoundGap]:
        while run.n:
            numbers = self._number + np.cumsum(1 + np.maximum(run.lost, 0))
            delays = run.stamps - numbers / self.rate
            suspected = self._suspected
            n = suspected.step(delays) if suspected else self._accept(delays, run.stamps)
            taken, run = run.cut(0, n), run.cut(n)
            self._number = int(numbers[n - 1]) if n else self._number
            yield from self._hold(taken, suspected) if suspected else self._pieces(taken, 0)

    def _accept(self, delays: SecondsArray, stamps: SecondsArray) -> int:
        """Number of samples with usual delays; the one after them begins a suspected gap."""
        least_s = MOST_OF_A_CYCLE * (self._cycle or 0) / self.rate
        n = self._delays.count_usual(delays, least_s)
        if n:
            self._delays.learn(delays[:n], stamps[:n])
        if n < len(delays):
            self._suspected = self._suspect(float(delays[n]), least_s)
        return n

    def _suspect(self, delay_s: float, least_s: float) -> _SuspectedGap:
        statistics = self._delays
        rise = (delay_s - statistics.floor_s) * self.rate
        regular = statistics.regular and _is_whole(rise)
        stays = (REGULAR_STAYS_S if regular else statistics.stays_s) * self.rate
        return _SuspectedGap(
            floor_s=statistics.floor_s,
            usual_s=max(statistics.suspect_s, least_s),
            sample_s=1 / self.rate,
            stays=stays,
            most=rise + MOST_WAITS * stays,
            low_s=delay_s,
            least_s=delay_s,
            lowest_s=delay_s,
        )

    def _hold(self, taken: SampleRun, suspected: _SuspectedGap) -> Iterator[FoundGap]:
        self._held = self._held.then(taken) if self._held else taken
        if suspected.decided:
            yield from self.flush()
        elif suspected.samples > suspected.most:
            held, self._held = self._held, None
            yield from self._pieces(held, 0)

    def _count_lost(self, rise: float, usual: float) -> int:
        """Number of samples lost beyond those the device counted, for a rise in samples."""
        if rise <= usual or (rise < LEAST_SAMPLES and not _is_whole(rise)):
            return 0
        unit = self._cycle or 1
        return round(rise / unit) * unit

    def _pieces(self, run: SampleRun, lost: int) -> Iterator[FoundGap]:
        """Cut at the counted gaps; `lost` more samples are missing before the first one."""
        inside = (int(i) for i in np.flatnonzero(run.lost > 0) if i)
        for begin, end in pairwise([0, *inside, run.n]):
            if end > begin:
                missing = max(0, int(run.lost[begin]) + (0 if begin else lost))
                unknown = self._unknown_loss or (missing and self._cycle is None)
                self._unknown_loss = False
                yield run.cut(begin, end), None if unknown else missing


def _is_whole(samples: float) -> bool:
    """Whether it is a whole number, up to the drift of a clock."""
    return abs(samples - round(samples)) <= 0.02 + 1e-4 * samples
