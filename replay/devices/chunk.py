"""A chunk is what a device gave in one piece, in whatever size it liked, before it is numbered."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bci_stream.packet import FloatArray, Lead, Triggers


@dataclass(frozen=True, slots=True)
class Chunk:
    """Samples that came together.

    samples: (n, leads) float32, microvolts; n may be anything from 1.
    triggers: (offset in the chunk, code), in order.
    lost: how many samples the device itself says are missing right before this chunk; None where
        some are missing and it can't say how many (the clock is asked then).
    stamp: LSL time of the last sample, where the device stamps its samples; else None, and the time
        at which the chunk arrived stands for it.
    newer: samples after this chunk's that have arrived already and are held back for their
        triggers; the time of arrival is theirs, not this chunk's.
    """

    samples: FloatArray
    triggers: Triggers = ()
    lost: int | None = 0
    stamp: float | None = None
    newer: int = 0

    @property
    def n(self) -> int:
        return len(self.samples)


def merged(chunks: list[Chunk]) -> list[Chunk]:
    """The same samples in fewer chunks: those that follow each other without a gap are one."""
    runs: list[list[Chunk]] = []
    for chunk in chunks:
        if runs and chunk.lost == 0 and chunk.stamp is None:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return [run[0] if len(run) == 1 else _one(run) for run in runs]


def _one(run: list[Chunk]) -> Chunk:
    triggers: list[tuple[int, int]] = []
    before = 0
    for chunk in run:
        triggers += [(before + offset, code) for offset, code in chunk.triggers]
        before += chunk.n
    samples = np.concatenate([chunk.samples for chunk in run])
    return Chunk(samples, tuple(triggers), run[0].lost, newer=run[-1].newer)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a device measures; fixed for as long as its stream lives."""

    rate: float
    leads: tuple[Lead, ...]


class Parser(Protocol):
    """Bytes in, chunks out; the chunks' samples are the same for any split of the bytes.

    counts: whether the format itself tells how many samples are missing.
    """

    counts: bool

    @property
    def info(self) -> DeviceInfo | None:
        """None until the device has said what it measures."""

    @property
    def resyncs(self) -> int:
        """How often bytes had to be skipped to find the next frame."""

    def feed(self, data: bytes) -> list[Chunk]:
        """Take what a recv() gave, and return what is complete with it. Raises SourceError."""

    def bytes_for(self, samples: int) -> int:
        """How many more bytes bring so many samples, at least; 1 where that is not known yet."""

    def reply(self) -> bytes:
        """What the device now waits for from its client; empty almost always."""

    def notes(self) -> list[str]:
        """What the user should know of the bytes since the last call, in words."""

    def restart(self) -> None:
        """A new connection begins: drop the unfinished frame, keep what the numbering needs."""


@dataclass(frozen=True)
class Timeouts:
    """In seconds.

    first_s: for a device to be found at the start. reconnect_s: for one that went to come back.
    stall_s: silence of a device that is there. dead_s: such a silence is a dead connection.
    """

    first_s: float = 30.0
    reconnect_s: float = 600.0
    dial_s: float = 5.0
    stall_s: float = 0.5
    dead_s: float = 5.0
    backoff_s: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0)

    def backoff(self, failures: int) -> float:
        """How long to wait after so many failures in a row, from 1."""
        return self.backoff_s[min(failures, len(self.backoff_s)) - 1]
