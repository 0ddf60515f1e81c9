"""Signals, and the content of one file as a reader returns it."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Lead
from replay.model.events import Events, KnownEvents


class Signal(Protocol):
    """The samples of a file, readable in any order."""

    @property
    def n_samples(self) -> int: ...

    def read(self, start: int, stop: int) -> FloatArray:
        """Samples start to stop: (stop - start, leads) float32 microvolts, C-contiguous."""


@dataclass(frozen=True)
class ArraySignal:
    """A signal in memory or in a memory map.

    data: (leads, samples) of any number type. scale: factor to microvolts.
    """

    data: NDArray[Any]
    scale: float = 1.0

    @property
    def n_samples(self) -> int:
        return int(self.data.shape[1])

    def read(self, start: int, stop: int) -> FloatArray:
        piece = self.data[:, start:stop].T
        # Overflow gives infinity, which `replay.transform.fit` refuses.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.scale != 1.0:
                piece = piece * np.float64(self.scale)
            return np.ascontiguousarray(piece, dtype=np.float32)


@dataclass(frozen=True)
class Content:
    """The signal and events of one file, with what the file states about itself.

    name: for messages. form: name of the format. subject, track: None if the file does not state them.
    block_starts: first sample of each block; None if the file does not state them.
    notes: decisions made while reading, one line each.
    lazy: whether samples stay on the disk until they are read.
    masked: whether labels were removed from the file.
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
