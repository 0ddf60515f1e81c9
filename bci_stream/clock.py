"""Clocks: the time, waiting for an absolute deadline, and a thread for what is done again and again.

The manual clock is for tests.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

LEAST_SPIN_S, FIRST_SPIN_S, MOST_SPIN_S = 0.00002, 0.0003, 0.0005
"""Seconds of busy waiting before a deadline, in place of sleep, because a sleep ends 0.1 to 0.25 ms late
(measured) and a warm-up takes 0.05 ms. The length adapts to the lateness of this machine's sleeps."""

SPIN_COVERS = 0.97
SPIN_STEP_S = 0.00002
"""The spin follows this quantile of the lateness, in steps of this size."""

NAP_S = 0.1
"""Longest sleep before a wait checks whether it was stopped."""


TURN_S = 0.0005
"""How long a computing thread keeps the interpreter while another one wants it, within `short_turns`."""


def _nothing() -> None:
    """The default warm-up: none."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on the clock that LSL stamps are in."""

    def wait_until(
        self,
        deadline: float,
        stop: threading.Event | None = None,
        warm_up: Callable[[], None] = _nothing,
    ) -> bool:
        """Block until the deadline; returns False if `stop` was set before it.

        warm_up: called once after a sleep, just before the deadline. After a sleep code runs several times
        slower at first, so code that must be fast at the deadline is run once before it.
        """

    def sleep_until(self, deadline: float, stop: threading.Event | None = None) -> bool:
        """As `wait_until`, without busy waiting: it ends some tenths of a millisecond late."""


class RealClock:
    """A real clock; now: the transport's clock, so that deadlines and time stamps agree."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._spin_s = FIRST_SPIN_S
        self._late_s: float | None = None

    def wait_until(
        self,
        deadline: float,
        stop: threading.Event | None = None,
        warm_up: Callable[[], None] = _nothing,
    ) -> bool:
        if self._late_s is not None:
            self._spin_s = learned_spin(self._spin_s, self._late_s)
        slept = self.now() < deadline - self._spin_s
        if not self.sleep_until(deadline - self._spin_s, stop):
            return False
        if slept and self.now() < deadline:
            warm_up()
        # Used at the next wait: between a sleep and a deadline every line costs time.
        self._late_s = self.now() - (deadline - self._spin_s) if slept else None
        while self.now() < deadline:
            pass
        return True

    def sleep_until(self, deadline: float, stop: threading.Event | None = None) -> bool:
        while (left := deadline - self.now()) > 0:
            if stop is not None and stop.is_set():
                return False
            time.sleep(min(left, NAP_S))  # cheaper than waiting for the event, and as exact
        return True


def learned_spin(spin_s: float, late_s: float) -> float:
    """The next spin, after a sleep that was late_s late.

    A long step up if the spin was too short, a short step down if not, so that it converges to the
    SPIN_COVERS quantile of the lateness. Stalls of more than MOST_SPIN_S are ignored.
    """
    if late_s > MOST_SPIN_S:
        return spin_s
    step = SPIN_COVERS if late_s > spin_s else SPIN_COVERS - 1.0
    return min(max(spin_s + step * SPIN_STEP_S, LEAST_SPIN_S), MOST_SPIN_S)


@contextmanager
def thread_beside(run: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run a function on a thread until the block ends; then set its event and wait for it to return."""
    over = threading.Event()
    thread = threading.Thread(target=run, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let a thread of this process wait less than Python's 5 ms for another one that computes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class ManualClock:
    """A clock that moves by `advance`, and to the deadline of a wait."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def wait_until(
        self,
        deadline: float,
        stop: threading.Event | None = None,
        warm_up: Callable[[], None] = _nothing,
    ) -> bool:
        if stop is not None and stop.is_set():
            return False
        if self._now < deadline:
            warm_up()
            self._now = deadline
        return True

    def sleep_until(self, deadline: float, stop: threading.Event | None = None) -> bool:
        return self.wait_until(deadline, stop)


STALL_CHECK_S = 0.05
"""How often a StallWatch checks the clock."""


class StallWatch:
    """A thread that does nothing but look at the clock, and so finds when its process stood still.

    A gap between two looks means that the process was stopped, or that the machine had no time for it.
    """

    def __init__(self, now: Callable[[], float], longest_s: float) -> None:
        """longest_s: gaps up to this length are no stall."""
        self._now = now
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._seen = now()
        self._stalls: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stall-watch", daemon=True)

    def __enter__(self) -> "StallWatch":
        self._seen = self._now()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(STALL_CHECK_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        now = self._now()
        if now - self._seen > self._longest_s + STALL_CHECK_S:
            self._stalls.append((self._seen, now))
        self._seen = now

    def take(self) -> list[tuple[float, float]]:
        """(begin, end) of the stalls since the last call, up to now, in seconds of the clock."""
        with self._lock:
            self._look()
            stalls, self._stalls = self._stalls, []
        return stalls


SAME_CLOCK_S = 0.001
"""Two clocks that differ by less count as one: both processes are on one machine."""

NEWS_S = 0.005
"""A change of an offset by more is worth a line in the log."""

DRIFT_AFTER_S = 20.0
MOST_OFFSETS = 300
"""A drift is given after this time, from at most so many measurements."""


class OffsetTrack:
    """Measurements of the offset between another host's clock and ours, with its drift and jitter."""

    def __init__(self) -> None:
        self._measured: list[tuple[float, float]] = []
        self._news_s = 0.0

    def add(self, at: float, offset_s: float) -> None:
        """at: on our clock, in s. A value that was not measured again is left out."""
        if not self._measured or offset_s != self._measured[-1][1]:
            self._measured = [*self._measured[1 - MOST_OFFSETS :], (at, offset_s)]

    @property
    def offset_s(self) -> float:
        """What is added to the other host's times; 0 before the first measurement."""
        return self._measured[-1][1] if self._measured else 0.0

    @property
    def drift_ppm(self) -> float | None:
        """How fast the offset grows, by least squares; None for a short time of measuring."""
        line = self._line()
        return None if line is None else line[0] * 1e6

    @property
    def jitter_s(self) -> float | None:
        """The root mean square of what a constant drift does not explain."""
        line = self._line()
        if line is None:
            return None
        slope, mean_at, mean_s = line
        rest = [s - mean_s - slope * (at - mean_at) for at, s in self._measured]
        return math.sqrt(sum(r * r for r in rest) / len(rest))

    def _line(self) -> tuple[float, float, float] | None:
        count = len(self._measured)
        if count < 3 or self._measured[-1][0] - self._measured[0][0] < DRIFT_AFTER_S:
            return None
        mean_at = sum(at for at, _ in self._measured) / count
        mean_s = sum(s for _, s in self._measured) / count
        spread = sum((at - mean_at) ** 2 for at, _ in self._measured)
        slope = sum((at - mean_at) * (s - mean_s) for at, s in self._measured) / spread
        return slope, mean_at, mean_s

    def is_news(self) -> bool:
        """Whether the offset is another clock's and has changed since this was last true."""
        changed = abs(self.offset_s) > SAME_CLOCK_S and abs(self.offset_s - self._news_s) > NEWS_S
        if changed:
            self._news_s = self.offset_s
        return changed

    def __str__(self) -> str:
        if abs(self.offset_s) <= SAME_CLOCK_S:
            return "clock as here"
        drift, jitter = self.drift_ppm, self.jitter_s
        more = "" if drift is None else f", drift {drift:+.1f} ppm"
        more += "" if jitter is None else f", jitter {jitter * 1000:.2f} ms"
        return f"clock offset {self.offset_s:+.4f} s{more}"
