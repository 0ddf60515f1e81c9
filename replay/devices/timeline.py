"""A timeline numbers the samples of a device and tells when each was taken, over all gaps.

Nothing is invented to fill a gap: the numbers jump by what was lost. Where the device counts
(JellyFish, BrainFlow) that is exact; where it does not, the time that passed says about how many.
"""

from dataclasses import dataclass

from bci_stream.packet import FloatArray, Triggers
from replay.devices.chunk import Chunk
from replay.devices.fitted_clock import FittedClock
from replay.devices.sample_clock import SampleClock

DISBELIEF_S = 10.0
"""A device that claims a gap longer than the time that passed, by more than this, counts anew."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A chunk with its place: start counts from the first sample of all; lost stands before it."""

    samples: FloatArray
    triggers: Triggers
    start: int
    lost: int = 0
    exact: bool = True

    @property
    def stop(self) -> int:
        return self.start + len(self.samples)


class Timeline:
    """clock: fitted to arrivals, unless the device's own stamps are to be kept (`GivenClock`)."""

    def __init__(self, rate: float, clock: SampleClock | None = None) -> None:
        self.rate = rate
        self.clock: SampleClock = clock or FittedClock(rate)
        self._next = 0
        self._last_end: float | None = None

    def place(self, chunk: Chunk, arrival: float) -> Placed:
        """arrival: when the chunk was received, for a device that stamps nothing itself."""
        end = self.end_of(chunk, arrival)
        lost, exact = self._lost(chunk, end)
        placed = Placed(chunk.samples, chunk.triggers, self._next + lost, lost, exact)
        if not exact:  # a gap that was counted keeps its place on the line that was fitted
            self.clock.restart()
        self._next, self._last_end = placed.stop, end
        self.clock.observe(placed.stop - 1, end)
        return placed

    def end_of(self, chunk: Chunk, arrival: float) -> float:
        """When its last sample was taken, as far as this chunk alone tells."""
        return arrival - chunk.newer / self.rate if chunk.stamp is None else chunk.stamp

    def stamp(self, index: int) -> float:
        return self.clock.stamp(index)

    def _lost(self, chunk: Chunk, end: float) -> tuple[int, bool]:
        if self._last_end is None:
            return 0, True
        passed = round((end - self._last_end) * self.rate) - chunk.n
        if chunk.lost is not None and chunk.lost <= passed + DISBELIEF_S * self.rate:
            return chunk.lost, True
        return max(0, passed), False
