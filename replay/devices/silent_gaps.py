"""Silent gaps: samples that a device lost without counting them, told from those that only come late.

Raw and hEEG do not number their samples. After a silence either all that was taken meanwhile comes at
once, since the network stood still; or the device goes on as if nothing had been, and that much is lost.
Only what comes next shows which of the two it is, so it is held back until then.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from replay.devices.chunk import Chunk

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
