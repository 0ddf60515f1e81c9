"""Events: what happened at which sample of a recording.

A `Mark` is an event as the file names it; `replay.event_map` turns marks into triggers (sample,
code). `Events` are the triggers of a whole recording: known beforehand, or found in a stim channel
while it is read.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Triggers

MAX_CODE = 0xFFFF
SCAN_SAMPLES = 1 << 16


@dataclass(frozen=True, slots=True)
class Mark:
    """One event as the file has it."""

    sample: int
    name: str


class Events(Protocol):
    """The triggers of a recording: (sample, code), in order of their samples."""

    def between(self, start: int, stop: int) -> Triggers: ...
    def all(self) -> Triggers: ...


class KnownEvents:
    """Triggers that are all known beforehand."""

    def __init__(self, triggers: Iterable[tuple[int, int]]) -> None:
        self._triggers: Triggers = tuple(sorted(triggers, key=lambda trigger: trigger[0]))
        self._samples = np.array([sample for sample, _ in self._triggers], dtype=np.int64)

    def between(self, start: int, stop: int) -> Triggers:
        first, last = np.searchsorted(self._samples, (start, stop))
        return self._triggers[first:last]

    def all(self) -> Triggers:
        return self._triggers


StimReader = Callable[[int, int], NDArray[np.float32]]
MarksToTriggers = Callable[[list[Mark]], Triggers]


class StimEvents:
    """Triggers of a stim channel, found while it is read, so that nobody waits for a whole file.

    A trigger stands where the channel takes on a new value other than 0; a held value is one.
    """

    def __init__(
        self, name: str, n_samples: int, read: StimReader, triggers: MarksToTriggers
    ) -> None:
        self._name, self._n_samples, self._read, self._triggers = name, n_samples, read, triggers
        self._known: KnownEvents | None = None

    def between(self, start: int, stop: int) -> Triggers:
        if self._known is not None:
            return self._known.between(start, stop)
        return self._triggers(self.marks(max(start, 0), min(stop, self._n_samples)))

    def all(self) -> Triggers:
        if self._known is None:
            self._known = KnownEvents(self._triggers(self.all_marks()))
        return self._known.all()

    def all_marks(self) -> list[Mark]:
        """Every event of the channel: this reads it from end to end."""
        starts = range(0, self._n_samples, SCAN_SAMPLES)
        return [m for s in starts for m in self.marks(s, min(s + SCAN_SAMPLES, self._n_samples))]

    def marks(self, start: int, stop: int) -> list[Mark]:
        if start >= stop:
            return []
        # The sample before tells whether the first value is new or held.
        first = max(start - 1, 0)
        values = self._read(first, stop).reshape(-1)
        # Nearly all of the channel is 0: only what is not is looked at.
        places = np.flatnonzero(values)
        codes = self._codes(values[places], places, first)
        held = np.zeros(len(places), dtype=bool)
        held[1:] = (np.diff(places) == 1) & (np.diff(codes) == 0)
        new = ~held & (codes != 0) & (places + first >= start)
        return [
            Mark(first + int(place), str(int(code)))
            for place, code in zip(places[new], codes[new], strict=True)
        ]

    def _codes(
        self, values: NDArray[np.float32], places: NDArray[np.intp], first: int
    ) -> NDArray[np.int64]:
        rounded = np.rint(values)
        bad = np.flatnonzero(~(np.abs(values - rounded) < 1e-3) | (rounded < 0))
        if len(bad):
            raise SourceError(
                f"{self._name}: the trigger channel holds {values[bad[0]]:g} at sample "
                f"{first + int(places[bad[0]])}; a trigger is a whole number from 0 to {MAX_CODE}. "
                "Name the right channel with ?triggers=NAME, or say ?triggers=none"
            )
        return rounded.astype(np.int64) & MAX_CODE
