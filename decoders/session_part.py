"""A part of a session: some of its blocks, as a session of its own; for leaving blocks out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead, Triggers
from replay.source import RawPacket, Session

ANGLES_HZ = 200


@dataclass(frozen=True)
class SessionPart:
    """The blocks `kept` of a session, renumbered from 0; implements `replay.source.Session`."""

    whole: Session
    kept: tuple[int, ...]

    @property
    def subject(self) -> str:
        return self.whole.subject

    @property
    def rate(self) -> float:
        return self.whole.rate

    @property
    def leads(self) -> tuple[Lead, ...]:
        return self.whole.leads

    @property
    def n_samples(self) -> int:
        return sum(n for n, _ in self.block_triggers())

    @property
    def angles(self) -> NDArray[np.float64] | None:
        if self.whole.angles is None:
            return None
        return np.concatenate([self.whole.angles[rows] for rows in self._rows()])

    def block_triggers(self) -> Sequence[tuple[int, Triggers]]:
        blocks = self.whole.block_triggers() or ()
        return [blocks[number] for number in self.kept]

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        for packet in self.whole.packets(packet_samples):
            if packet.block in self.kept:
                yield replace(packet, block=self.kept.index(packet.block))

    def _rows(self) -> list[slice]:
        lengths = [n for n, _ in self.whole.block_triggers() or ()]
        bounds = np.concatenate([[0], np.cumsum(lengths)]) * ANGLES_HZ / self.rate
        rows = [int(bound + 1e-9) for bound in bounds]
        return [slice(rows[number], rows[number + 1]) for number in self.kept]


def n_blocks(session: Session) -> int:
    """How many blocks a recorded session has."""
    return len(session.block_triggers() or ())
