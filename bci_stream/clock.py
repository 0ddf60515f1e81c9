"""A clock tells the time and waits for a moment; a manual one lets tests do both without waiting."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

LEAST_SPIN_S, FIRST_SPIN_S, MOST_SPIN_S = 0.00002, 0.0003, 0.0005
"""The last stretch before a deadline is spun, not slept, since after a sleep one comes to the next line 0.1
to 0.25 ms late (measured: the core slept, too), and a warm-up takes 0.05 ms. How late is learned, so that no
more is spun than this machine needs."""

SPIN_COVERS = 0.97
SPIN_STEP_S = 0.00002
"""The spin follows that quantile of the lateness, by steps of this size."""

NAP_S = 0.1
"""How long a wait sleeps at most before it looks whether it was stopped."""


def _nothing() -> None:
    """There is nothing to warm up."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on the clock that LSL stamps are in."""

    def wait_until(
        self,
        deadline: float,
        stop: threading.Event | None = None,
        warm_up: Callable[[], None] = _nothing,
    ) -> bool:
        """Wait for an absolute moment; False where `stop` was set before it came.

        warm_up: done once after a sleep, shortly before the moment. A core that just slept takes several
        times as long for a line that it comes to first, so let it come to those that count before.
        """


class RealClock:
    """A clock that runs by itself; `now` is the transport's, so that deadlines and stamps agree."""

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
        slept = False
        while (left := deadline - self.now() - self._spin_s) > 0:
            if stop is not None and stop.is_set():
                return False
            time.sleep(min(left, NAP_S))  # cheaper than waiting for the event, and as exact
            slept = True
        if slept and self.now() < deadline:
            warm_up()
        # Noted here, and learned from at the next wait: between a sleep and a deadline each line costs.
        self._late_s = self.now() - (deadline - self._spin_s) if slept else None
        while self.now() < deadline:
            pass
        return True


def learned_spin(spin_s: float, late_s: float) -> float:
    """A spin that is to cover a sleep's lateness, after one more sleep was so late.

    Far up where it was too short, a little down where it was not: it comes to rest where it covers
    SPIN_COVERS of all that can be covered. A machine that halts now and then teaches nothing.
    """
    if late_s > MOST_SPIN_S:
        return spin_s
    step = SPIN_COVERS if late_s > spin_s else SPIN_COVERS - 1.0
    return min(max(spin_s + step * SPIN_STEP_S, LEAST_SPIN_S), MOST_SPIN_S)


class ManualClock:
    """A clock that moves when it is told to, or when somebody waits for a moment on it."""

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
