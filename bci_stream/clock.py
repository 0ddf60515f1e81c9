"""A clock tells the time and waits for a moment; a manual one lets tests do both without waiting."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

LEAST_SPIN_S, MOST_SPIN_S = 0.00002, 0.0003
"""The last stretch before a deadline is spun, not slept, since a sleep alone ends late (by 0.1 to 0.2 ms,
measured). How late is learned, so that no more is spun than this machine needs."""

SPIN_COVERS = 0.97
SPIN_STEP_S = 0.00002
"""The spin follows that quantile of how late sleeps end, by steps of this size."""

NAP_S = 0.1
"""How long a wait sleeps at most before it looks whether it was stopped."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on the clock that LSL stamps are in."""

    def wait_until(self, deadline: float, stop: threading.Event | None = None) -> bool:
        """Wait for an absolute moment; False where `stop` was set before it came."""


class RealClock:
    """A clock that runs by itself; `now` is the transport's, so that deadlines and stamps agree."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._spin_s = MOST_SPIN_S

    def wait_until(self, deadline: float, stop: threading.Event | None = None) -> bool:
        while (left := deadline - self.now() - self._spin_s) > 0:
            if stop is not None and stop.is_set():
                return False
            self._nap(min(left, NAP_S))
        while self.now() < deadline:
            pass
        return True

    def _nap(self, nap_s: float) -> None:
        meant = self.now() + nap_s
        time.sleep(nap_s)  # cheaper than waiting for the event, and as exact
        self._spin_s = learned_spin(self._spin_s, self.now() - meant)


def learned_spin(spin_s: float, late_s: float) -> float:
    """A spin that is to cover a sleep's lateness, after one more sleep was so late.

    Far up where it was too short, a little down where it was not: it comes to rest where it covers
    SPIN_COVERS of all sleeps, however far out the others lie.
    """
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

    def wait_until(self, deadline: float, stop: threading.Event | None = None) -> bool:
        if stop is not None and stop.is_set():
            return False
        self._now = max(self._now, deadline)
        return True
