"""A device's own time in milliseconds, 32 bits wide: it wraps, jumps and steps back."""

from dataclasses import dataclass

WRAP_MS = 2**32
REPEAT_MS = 10_000
"""What steps back by less is sent again; by more, the device was started anew,"""
MOST_REPEATED_MS = 1000
"""as it was where more than this steps back in a row: nobody sends so much again."""


@dataclass(frozen=True, slots=True)
class Place:
    """start_ms: unwrapped. lost: samples missing before; None: the device began to count anew.

    skip: leading samples that were there already.
    """

    start_ms: int
    lost: int | None
    skip: int = 0


class DeviceTime:
    """Unwrapped time only grows: a device that counts anew is on its clock's next turn."""

    def __init__(self) -> None:
        self._next_ms: int | None = None
        self._resumed = False
        self._anew = False
        self._repeated_ms = 0

    def restart(self) -> None:
        """A new connection: nothing is sent again over it, so what steps back was counted anew."""
        self._resumed = self._next_ms is not None

    def place(self, start_ms: int, length_ms: int, n: int) -> Place | None:
        """Where n samples over length_ms belong; None where all of them were there already."""
        start, length_ms = self.unwrap(start_ms), max(1, length_ms)
        ahead = 0 if self._next_ms is None else start - self._next_ms
        skip = max(0, round(-ahead * n / length_ms))
        if skip >= n and not self._anew:
            self._repeated_ms += length_ms
            if ahead >= -REPEAT_MS and self._repeated_ms <= MOST_REPEATED_MS:
                return None
            start, self._anew = start + WRAP_MS, True
        lost = max(0, round(ahead * n / length_ms))
        place = Place(start, None) if self._anew else Place(start - min(0, ahead), lost, skip)
        self._next_ms, self._repeated_ms, self._anew = start + length_ms, 0, False
        return place

    def unwrap(self, ms: int) -> int:
        """The moment nearest to now that reads ms on the device's 32 bits."""
        if self._next_ms is None:
            return ms
        ahead = (ms - self._next_ms) % WRAP_MS
        moment = self._next_ms + (ahead if ahead < WRAP_MS // 2 else ahead - WRAP_MS)
        if self._resumed and moment < self._next_ms:
            moment += WRAP_MS
            self._next_ms, self._anew = moment, True
        self._resumed = False
        return moment
