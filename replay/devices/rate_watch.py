"""A rate watch counts how many samples a second really come, whatever the device is said to give."""

from collections import deque
from statistics import median

WINDOW_S = 1.0
WINDOWS = 6
OFF = 0.01
"""No device's clock is wrong by so much: then its rate is another one."""


class RateWatch:
    """Counts from one arrival to another, so that the size of chunks does not matter.

    windows: how many seconds must agree. off: by what part of a rate a second may differ from it.
    """

    def __init__(self, windows: int = WINDOWS, off: float = OFF) -> None:
        self._windows, self._off = windows, off
        self._rates: deque[float] = deque(maxlen=windows)
        self.restart()

    @property
    def is_full(self) -> bool:
        """Whether all seconds that are to agree have been counted."""
        return len(self._rates) == self._windows

    def restart(self) -> None:
        """After a gap or a stall: what came before it can't be counted together with what follows."""
        self._rates.clear()
        self._since: float | None = None
        self._samples = 0

    def took(self, samples: int, now: float) -> None:
        if self._since is None:
            self._since = now
            return
        self._samples += samples
        passed_s = now - self._since
        if passed_s >= WINDOW_S:
            self._rates.append(self._samples / passed_s)
            self._since, self._samples = now, 0

    def agrees_with(self, rate: float) -> bool:
        """Whether the last second had as many samples as that."""
        return bool(self._rates) and abs(self._rates[-1] - rate) <= self._off * rate

    def other_than(self, rate: float) -> float | None:
        """What comes a second, where all of the last seconds agree that it is not `rate`.

        All of them: a second in which little came is followed by one in which the rest did.
        """
        low, high = (1 - self._off) * rate, (1 + self._off) * rate
        if not self.is_full or not (max(self._rates) < low or min(self._rates) > high):
            return None
        return median(self._rates)
