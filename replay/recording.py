"""A recording: a session whose blocks lie in a file or in memory, read piece by piece."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Lead, Triggers
from replay.source import RawPacket


class Block(Protocol):
    """One uninterrupted stretch of a recording, with a numbering of its own."""

    @property
    def n_samples(self) -> int: ...
    @property
    def triggers(self) -> Triggers:
        """(sample in the block, code), in order."""

    def read(self, start: int, stop: int) -> FloatArray:
        """Samples start to stop: (stop - start, leads) float32 microvolts, C-contiguous."""


@dataclass(frozen=True)
class ArrayBlock:
    """A block that lies in memory (or in a memory map): data (samples, leads)."""

    data: FloatArray
    triggers: Triggers

    @property
    def n_samples(self) -> int:
        return len(self.data)

    def read(self, start: int, stop: int) -> FloatArray:
        return np.ascontiguousarray(self.data[start:stop], dtype=np.float32)


@dataclass(frozen=True)
class Recording:
    """One subject's recording; implements `replay.source.Session`."""

    subject: str
    rate: float
    leads: tuple[Lead, ...]
    blocks: Sequence[Block]
    angles: NDArray[np.float64] | None = None

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
