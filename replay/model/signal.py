"""Content: what a reader found in one file, before it is fitted to a track and cut into blocks."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Lead
from replay.model.events import Events, KnownEvents


class Signal(Protocol):
    """The samples of a file: any stretch of them can be read at any time."""

    @property
    def n_samples(self) -> int: ...

    def read(self, start: int, stop: int) -> FloatArray:
        """Samples start to stop: (stop - start, leads) float32 microvolts, C-contiguous."""


@dataclass(frozen=True)
class ArraySignal:
    """A signal that lies in memory (or in a memory map) as the rule documents show it.

    data: (leads, samples) of any number type, in the unit that `scale` turns into microvolts.
    """

    data: NDArray[Any]
    scale: float = 1.0

    @property
    def n_samples(self) -> int:
        return int(self.data.shape[1])

    def read(self, start: int, stop: int) -> FloatArray:
        piece = self.data[:, start:stop].T
        # What float32 can't hold becomes infinite, and is refused as such (`replay.transform.fit`).
        with np.errstate(over="ignore", invalid="ignore"):
            if self.scale != 1.0:
                piece = piece * np.float64(self.scale)
            return np.ascontiguousarray(piece, dtype=np.float32)


@dataclass(frozen=True)
class Content:
    """One file's signal, its events, and what it says about itself.

    name: how messages call it; subject: whose it is, where the file itself says so.
    block_starts: where the file itself says that blocks begin; None where it does not say.
    notes: what had to be decided while reading, to be said aloud.
    lazy: True where the samples stay on the disk until they are asked for.
    masked: True where its labels were taken out, so that there is no truth in it.
    """

    name: str
    form: str
    rate: float
    leads: tuple[Lead, ...]
    signal: Signal
    events: Events = field(default_factory=lambda: KnownEvents(()))
    block_starts: tuple[int, ...] | None = None
    angles: NDArray[np.float64] | None = None
    subject: str | None = None
    track: str | None = None
    notes: tuple[str, ...] = ()
    lazy: bool = False
    masked: bool = False
