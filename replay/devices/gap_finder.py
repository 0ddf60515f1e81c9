"""A gap finder tells by the stamps where samples are missing, and is not fooled by a hiccup.

After a silence two things look alike at first: samples that were lost, and samples that were only
held up and now come in a burst. So the samples after a rise of their lateness are kept back until
it has come down again (nothing was lost) or stays (what it stays at was lost).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from replay.devices.lateness import LEAST_SAMPLES, Floats, Lateness
from replay.devices.stretch import Stretch

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

Found = tuple[Stretch, int | None]
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
        self._held: Stretch | None = None

    def step(self, stretch: Stretch) -> Iterator[Found]:
        """What can be let go by now, in order."""
        for begin in range(0, stretch.n, self._at_once):
            yield from self._step(stretch.cut(begin, min(begin + self._at_once, stretch.n)))

    def _step(self, stretch: Stretch) -> Iterator[Found]:
        while stretch.n:
            places = self._place + np.cumsum(1 + np.maximum(stretch.lost, 0))
            late = stretch.stamps - places / self.rate
            doubt = self._doubt
            n = doubt.look(late) if doubt else self._trust(late, stretch.stamps)
            taken, stretch = stretch.cut(0, n), stretch.cut(n)
            self._place = int(places[n - 1]) if n else self._place
            yield from self._hold(taken, doubt) if doubt else self._pieces(taken, 0)

    def untimed(self, stretch: Stretch) -> Iterator[Found]:
        """Samples whose stamps tell nothing: only what the device counted; call `restart` before."""
        self._place += stretch.n + int(np.maximum(stretch.lost, 0).sum())
        return self._pieces(stretch, 0)

    def flush(self) -> Iterator[Found]:
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

    def _hold(self, taken: Stretch, doubt: _Doubt) -> Iterator[Found]:
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

    def _pieces(self, stretch: Stretch, lost: int) -> Iterator[Found]:
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
