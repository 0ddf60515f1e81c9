"""Recordings: sessions made of blocks, and cutting them into packets."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.model.events import Events
from replay.model.signal import Signal
from replay.model.source import RawPacket
from tracks.common.codes import BLOCK_START


class Block(Protocol):
    """An uninterrupted part of a recording; its samples are numbered from 0."""

    @property
    def n_samples(self) -> int: ...
    @property
    def triggers(self) -> Triggers:
        """(sample in the block, code), in order."""

    def read(self, start: int, stop: int) -> FloatArray:
        """Samples start to stop: (stop - start, leads) float32 microvolts, C-contiguous."""


@dataclass(frozen=True)
class ArrayBlock:
    """A block in memory or in a memory map. data: (samples, leads)."""

    data: FloatArray
    triggers: Triggers

    @property
    def n_samples(self) -> int:
        return len(self.data)

    def read(self, start: int, stop: int) -> FloatArray:
        return np.ascontiguousarray(self.data[start:stop], dtype=np.float32)


@dataclass(frozen=True)
class Recording:
    """One subject's recording; implements `replay.model.source.Session`."""

    subject: str
    rate: float
    leads: tuple[Lead, ...]
    blocks: Sequence[Block]
    angles: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    masked: bool = False

    @property
    def n_samples(self) -> int:
        return sum(block.n_samples for block in self.blocks)

    def block_triggers(self) -> Sequence[tuple[int, Triggers]]:
        return [(block.n_samples, block.triggers) for block in self.blocks]

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        for number, block in enumerate(self.blocks):
            yield from _cut(block, number, packet_samples)


def _cut(block: Block, number: int, packet_samples: int) -> Iterator[RawPacket]:
    positions = [position for position, _ in block.triggers]
    for start in range(0, block.n_samples, packet_samples):
        stop = min(start + packet_samples, block.n_samples)
        first, last = bisect_left(positions, start), bisect_left(positions, stop)
        triggers = tuple((p - start, code) for p, code in block.triggers[first:last])
        yield RawPacket(
            block.read(start, stop), triggers, start, number, last_of_block=stop == block.n_samples
        )


PIECE_S = 4.0
"""Seconds of a file that are read together: reading it packet by packet takes much longer."""

ReadPiece = tuple[int, FloatArray, Triggers]
"""(number of its first sample, samples, triggers)"""


class PieceReader:
    """Reads a signal and its events in pieces, and gives out spans of them.

    The samples of a span inside one piece are a view of it, which must not be changed.
    """

    def __init__(self, signal: Signal, events: Events, piece_samples: int) -> None:
        self._signal, self._events = signal, events
        self._piece_samples = piece_samples
        self._pieces: dict[int, ReadPiece | None] = {}

    @property
    def n_samples(self) -> int:
        return self._signal.n_samples

    def read(self, start: int, stop: int) -> FloatArray:
        pieces = self._pieces_of(start, stop)
        if pieces is None:
            return self._signal.read(start, stop)
        views = [samples[max(start - at, 0) : stop - at] for at, samples, _ in pieces]
        return views[0] if len(views) == 1 else np.concatenate(views)

    def between(self, start: int, stop: int) -> Triggers:
        """Triggers from sample start up to stop."""
        stop = min(stop, self.n_samples)
        pieces = self._pieces_of(start, stop)
        if pieces is None:
            return self._events.between(start, stop)
        return tuple(t for _, _, triggers in pieces for t in triggers if start <= t[0] < stop)

    def _pieces_of(self, start: int, stop: int) -> list[ReadPiece] | None:
        """The pieces with these samples; None where one can't be read.

        Its packets are then read one by one, so that a bad sample spoils its own packet only.
        """
        size = self._piece_samples
        pieces = [self._piece(k) for k in range(start // size, (stop - 1) // size + 1)]
        good = [piece for piece in pieces if piece is not None]
        return good if len(good) == len(pieces) else None

    def _piece(self, number: int) -> ReadPiece | None:
        if number not in self._pieces:
            self._pieces = {k: piece for k, piece in self._pieces.items() if k == number - 1}
            start = number * self._piece_samples
            stop = min(start + self._piece_samples, self.n_samples)
            try:
                piece = start, self._signal.read(start, stop), self._events.between(start, stop)
            except SourceError:
                self._pieces[number] = None
            else:
                self._pieces[number] = piece
        return self._pieces[number]


def block_starts(triggers: Triggers) -> tuple[int, ...]:
    """First samples of the blocks by their triggers: sample 0, and each 242 after the first one."""
    starts = sorted({sample for sample, code in triggers if code == BLOCK_START})
    return (0, *(sample for sample in starts[1:] if sample > 0))


def split_triggers(
    n_samples: int, triggers: Triggers, starts: Sequence[int]
) -> list[tuple[int, Triggers]]:
    """(samples, triggers counted from the block's start) of each block."""
    bounds = [*starts, n_samples]
    return [
        (stop - start, tuple((s - start, code) for s, code in triggers if start <= s < stop))
        for start, stop in pairwise(bounds)
    ]


@dataclass(frozen=True)
class SpanBlock:
    """A block that is part of a longer signal; implements `Block`."""

    signal: Signal
    start: int
    n_samples: int
    triggers: Triggers

    def read(self, start: int, stop: int) -> FloatArray:
        return self.signal.read(self.start + start, self.start + min(stop, self.n_samples))


def cut(
    reader: PieceReader, packet_samples: int, starts: Sequence[int] | None, first_block: int = 0
) -> Iterator[RawPacket]:
    """The packets of a signal; blocks are found on the way, so that the first packet needs no scan.

    starts: first samples of the blocks; None to begin a block at each 242 after the first one.
    """
    position, origin, block, begun = 0, 0, first_block, False
    while position < reader.n_samples:
        stop = min(position + packet_samples, reader.n_samples)
        # One sample more, because a 242 right behind this packet makes it the block's last.
        triggers = reader.between(position, stop + 1)
        if starts is None:
            next_start, begun = _next_242(triggers, position, stop, begun)
        else:
            next_start = _next_declared(starts, position, stop)
        stop = min(stop, next_start) if next_start is not None else stop
        ends = next_start is not None or stop == reader.n_samples
        yield RawPacket(
            samples=reader.read(position, stop),
            triggers=tuple((s - position, code) for s, code in triggers if s < stop),
            start=position - origin,
            block=block,
            last_of_block=ends,
        )
        position = stop
        if ends:
            origin, block = stop, block + 1


def _next_242(triggers: Triggers, position: int, stop: int, begun: bool) -> tuple[int | None, bool]:
    """The first sample of the next block, up to stop; and whether this block has had its 242."""
    for sample in sorted({sample for sample, code in triggers if code == BLOCK_START}):
        if begun and sample > position:
            return sample, True
        # A first 242 directly after this packet belongs to the next packet.
        begun = begun or sample < stop
    return None, begun


def _next_declared(starts: Sequence[int], position: int, stop: int) -> int | None:
    following = bisect_right(starts, position)
    found = starts[following] if following < len(starts) else None
    return found if found is not None and found <= stop else None
