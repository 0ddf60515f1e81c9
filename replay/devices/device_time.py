"""A device's own time in milliseconds, 32 bits wide: it wraps, jumps and steps back."""

from dataclasses import dataclass

WRAP_MS = 2**32
REPEAT_MS = 10_000
"""What steps back by less is sent again; by more, the device was started anew."""


@dataclass(frozen=True, slots=True)
class Place:
    """start_ms: unwrapped. lost: samples missing before; None: the device began to count anew.

    skip: leading samples that were there already.
    """

    start_ms: int
    lost: int | None
    skip: int = 0


class DeviceTime:
    def __init__(self) -> None:
        self._next_ms: int | None = None

    def place(self, start_ms: int, length_ms: int, n: int) -> Place | None:
        """Where n samples over length_ms belong; None where all of them were there already."""
        if self._next_ms is None:
            self._next_ms = start_ms
        start = self.unwrap(start_ms)
        ahead = start - self._next_ms
        length_ms = max(1, length_ms)
        if ahead >= 0 or ahead < -REPEAT_MS:
            self._next_ms = start + length_ms
            return Place(start, round(ahead * n / length_ms) if ahead >= 0 else None)
        skip = round(-ahead * n / length_ms)
        if skip >= n:
            return None
        self._next_ms = start + length_ms
        return Place(start - ahead, 0, skip)

    def unwrap(self, ms: int) -> int:
        """The moment nearest to now that reads ms on the device's 32 bits."""
        if self._next_ms is None:
            return ms
        ahead = (ms - self._next_ms) % WRAP_MS
        return self._next_ms + (ahead if ahead < WRAP_MS // 2 else ahead - WRAP_MS)
