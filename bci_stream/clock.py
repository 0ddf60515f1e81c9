"""A clock tells the time and waits for a moment; a manual one lets tests do both without waiting."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

SPIN_S = 0.0003
"""The last stretch before a deadline is spun, not slept: a sleep alone is late by 0.15 ms (measured)."""


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

    def wait_until(self, deadline: float, stop: threading.Event | None = None) -> bool:
        while (left := deadline - self.now() - SPIN_S) > 0:
            if stop is not None and stop.is_set():
                return False
            time.sleep(min(left, NAP_S))  # cheaper than waiting for the event, and as exact
        while self.now() < deadline:
            pass
        return True


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
