"""A gap finder tells by the stamps where samples are missing, and is not fooled by a hiccup.

After a silence two things look alike at first: samples that were lost, and samples that were only
held up and now come in a burst. So the samples after a rise of their lateness are kept back until
it has come down again (nothing was lost) or stays (what it stays at was lost).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray
from replay.devices.chunk import Chunk

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


@dataclass(frozen=True, slots=True)
class SampleRun:
    """samples: (n, leads). codes: (n,), 0 for none. stamps: (n,), seconds of one clock.

    lost: (n,), how many samples the device's own counter says are missing before each one; -1
        where it says the same number twice, which is a sample less than none.
    """

    samples: FloatArray
    codes: NDArray[np.int64]
    stamps: NDArray[np.float64]
    lost: NDArray[np.int64]

    @property
    def n(self) -> int:
        return len(self.stamps)

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
"""A lateness that rose by whole samples stays if it has not come down for so long, where stamps are
regular."""

MOST_WAITS = 4
"""Samples are kept back for the silence and so many waits; then the gap, if any, is put later."""

GIVE_UP = 10
"""After so many times that, what it came down to at its lowest is taken as lost."""

MOST_OF_A_CYCLE = 0.75
"""Of a counter's cycle: a smaller rise is a delay, since what is lost beyond the counter is whole cycles."""

AT_ONCE_S = 0.1
"""So much is judged by what was learnt before it: all that came at once would judge itself."""

FoundGap = tuple[SampleRun, int | None]
"""Samples without a gap inside; how many are missing before them, None where only time tells."""


@dataclass
class _Doubt:
    """What is seen since a sample came too late.

    floor_s: the lateness of before. usual_s: a rise that is none. stays: after so many samples that
    did not come down by one, it stays. low_s: where it last came down to, or rose to again.
    least_s: the least since then. lowest_s: the least of all.
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
    over: bool = False

    @property
    def rise_s(self) -> float:
        return self.least_s - self.floor_s

    def look(self, late: Floats) -> int:
        """How many samples it takes until it is over, or all of them."""
        for i, late_s in enumerate(late.tolist()):
            self.samples += 1
            self.still += 1
            self.least_s, self.lowest_s = min(self.least_s, late_s), min(self.lowest_s, late_s)
            if late_s > self.low_s + self.usual_s:  # held up again, before all had come
                self.low_s, self.least_s, self.still = late_s, late_s, 0
            elif late_s <= self.low_s - self.sample_s:
                self.low_s, self.still = late_s, 0
            if self.samples >= GIVE_UP * self.most:  # it neither stays nor comes down: be content
                self.least_s, self.over = self.lowest_s, True
            if self.rise_s <= self.usual_s or self.still >= self.stays:
                self.over = True
            if self.over:
                return i + 1
        return len(late)


class GapFinder:
    """cycle_samples: of a device that counts its samples: only whole cycles of its counter are left
    to be found by time. None: the device does not count, and time alone tells."""

    def __init__(self, rate: float, cycle_samples: int | None = None) -> None:
        self.rate, self._cycle = rate, cycle_samples
        self._at_once = max(1, round(AT_ONCE_S * rate))
        self._lateness = Lateness(rate)
        self._place = 0
        self.restart()

    def restart(self) -> None:
        """The device or the clock of its stamps begins anew; take what `flush` gives before."""
        self._lateness.restart()
        self._doubt: _Doubt | None = None
        self._held: SampleRun | None = None

    def step(self, stretch: SampleRun) -> Iterator[FoundGap]:
        """What can be let go by now, in order."""
        for begin in range(0, stretch.n, self._at_once):
            yield from self._step(stretch.cut(begin, min(begin + self._at_once, stretch.n)))

    def _step(self, stretch: SampleRun) -> Iterator[FoundGap]:
        while stretch.n:
            places = self._place + np.cumsum(1 + np.maximum(stretch.lost, 0))
            late = stretch.stamps - places / self.rate
            doubt = self._doubt
            n = doubt.look(late) if doubt else self._trust(late, stretch.stamps)
            taken, stretch = stretch.cut(0, n), stretch.cut(n)
            self._place = int(places[n - 1]) if n else self._place
            yield from self._hold(taken, doubt) if doubt else self._pieces(taken, 0)

    def untimed(self, stretch: SampleRun) -> Iterator[FoundGap]:
        """Samples whose stamps tell nothing: only what the device counted; call `restart` before."""
        self._place += stretch.n + int(np.maximum(stretch.lost, 0).sum())
        return self._pieces(stretch, 0)

    def flush(self) -> Iterator[FoundGap]:
        """What is kept back, by what is known of it now: no more will come."""
        if self._doubt is None or self._held is None:
            return
        lost = self._lost(self._doubt.rise_s * self.rate, self._doubt.usual_s * self.rate)
        self._place += lost
        held, self._doubt, self._held = self._held, None, None
        self._lateness.settled(float(held.stamps[-1]) - self._place / self.rate)
        yield from self._pieces(held, lost)

    def _trust(self, late: Floats, stamps: Floats) -> int:
        """How many samples are as usual; the one after them is doubted."""
        least_s = MOST_OF_A_CYCLE * (self._cycle or 0) / self.rate
        n = self._lateness.usual(late, least_s)
        if n:
            self._lateness.learn(late[:n], stamps[:n])
        if n < len(late):
            self._doubt = self._begin(float(late[n]), least_s)
        return n

    def _begin(self, late_s: float, least_s: float) -> _Doubt:
        lateness = self._lateness
        rise = (late_s - lateness.floor_s) * self.rate
        regular = lateness.regular and _is_whole(rise)
        stays = (REGULAR_STAYS_S if regular else lateness.stays_s) * self.rate
        return _Doubt(
            floor_s=lateness.floor_s,
            usual_s=max(lateness.doubt_s, least_s),
            sample_s=1 / self.rate,
            stays=stays,
            most=rise + MOST_WAITS * stays,
            low_s=late_s,
            least_s=late_s,
            lowest_s=late_s,
        )

    def _hold(self, taken: SampleRun, doubt: _Doubt) -> Iterator[FoundGap]:
        self._held = self._held.then(taken) if self._held else taken
        if doubt.over:
            yield from self.flush()
        elif doubt.samples > doubt.most:
            held, self._held = self._held, None
            yield from self._pieces(held, 0)

    def _lost(self, rise: float, usual: float) -> int:
        """A rise of so many samples: how many were lost, beyond what the device counted."""
        if rise <= usual or (rise < LEAST_SAMPLES and not _is_whole(rise)):
            return 0
        unit = self._cycle or 1
        return round(rise / unit) * unit

    def _pieces(self, stretch: SampleRun, lost: int) -> Iterator[FoundGap]:
        """Cut where the device counted a gap; `lost` more are missing before the first sample."""
        inside = (int(i) for i in np.flatnonzero(stretch.lost > 0) if i)
        for begin, end in pairwise([0, *inside, stretch.n]):
            missing = max(0, int(stretch.lost[begin]) + (0 if begin else lost)) if stretch.n else 0
            if end > begin:
                yield stretch.cut(begin, end), self._told(missing)

    def _told(self, missing: int) -> int | None:
        return None if missing and self._cycle is None else missing


def _is_whole(samples: float) -> bool:
    """But for a clock that runs a little faster or slower than is said."""
    return abs(samples - round(samples)) <= 0.02 + 1e-4 * samples


SILENCE_S = 0.1
"""What is shorter than this is the network's whim."""

DECIDE_S = 0.2
"""So long it is watched whether samples come faster than they are taken,"""
CATCHING_UP = 0.1
"""by this share at least: then they are a backlog."""

LONGEST_S = 2.0
"""Nothing is held back longer: what still hurries by then is a long backlog."""

Arrived = tuple[Chunk, float]
"""A chunk, and when it was received."""


def find_silent_gaps(chunks: Iterable[Arrived], rate: float) -> Iterator[Arrived]:
    """The same chunks; where samples are missing before one, its `lost` is None."""
    watch = _Watch(rate)
    for chunk, arrival in chunks:
        yield from watch.step(chunk, arrival)
    yield from watch.release(lost=True)


class _Watch:
    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._last: float | None = None
        self._owed_s = 0.0
        """How much later than they were due samples come since the silence began."""
        self._held: list[Arrived] = []
        self._owed: list[tuple[float, float]] = []

    def step(self, chunk: Chunk, arrival: float) -> list[Arrived]:
        """What need not be held back any longer."""
        if chunk.lost != 0 or self._last is None:  # a gap that is known, or the very first
            self._last = arrival
            return [*self.release(lost=True), (chunk, arrival)]
        passed_s, self._last = arrival - self._last, arrival
        self._owed_s = passed_s - chunk.n / self._rate + (self._owed_s if self._held else 0.0)
        if not self._held and self._owed_s <= SILENCE_S:
            return [(chunk, arrival)]
        self._held.append((chunk, arrival))
        self._owed.append((arrival, self._owed_s))
        if self._goes_on(arrival):
            return self.release(lost=True)
        is_over = self._owed_s <= SILENCE_S or arrival - self._owed[0][0] >= LONGEST_S
        return self.release(lost=False) if is_over else []

    def release(self, lost: bool) -> list[Arrived]:
        held, self._held, self._owed = self._held, [], []
        if lost and held:
            chunk, arrival = held[0]
            held[0] = replace(chunk, lost=None), arrival
        return held

    def _goes_on(self, arrival: float) -> bool:
        """Whether the device goes on at its own pace, and nothing is made up for."""
        watched = [(at, owed_s) for at, owed_s in self._owed if arrival - at >= DECIDE_S]
        if not watched:
            return False
        at, owed_s = watched[-1]
        return self._owed_s > SILENCE_S and owed_s - self._owed_s < CATCHING_UP * (arrival - at)
