"""A clock offset: what to add to another machine's stamps, measured now and then, followed slowly.

Each measurement is off by the network's whim. What is added therefore moves by little at a time, so
that stamps never jump and never run backwards.
"""

from collections.abc import Callable

MEASURE_EVERY_S = 5.0
SLEW_RATE = 2e-4
"""The most it moves a second: the clocks of two machines drift apart by less than half of that,"""
SLEW_S = 100e-6
"""and the most it moves at one time."""


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
        most_s = min(SLEW_S, SLEW_RATE * (now - self._moved_at))
        self._offset_s += max(-most_s, min(most_s, self._target_s - self._offset_s))
        self._moved_at = now
        return self._offset_s
