"""A source is anything that yields packets: sessions, one a subject, each with its own leads.

The packets that a source yields are RAW: labelled triggers, nothing masked, TRIGGER not yet in the samples'
last column. The player masks them and lays TRIGGER beside the leads; only then do they go on the wire.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Lead, Triggers


@dataclass(frozen=True, slots=True)
class RawPacket:
    """A piece of a source: unmasked.

    samples: (n, leads) float32, microvolts, C-contiguous.
    stamp: LSL time of the last sample, from a live device; None where the player sets the pace.
    """

    samples: FloatArray
    triggers: Triggers
    start: int
    block: int
    last_of_block: bool
    stamp: float | None = None


class Session(Protocol):
    """One subject's part of a source."""

    @property
    def subject(self) -> str: ...
    @property
    def rate(self) -> float: ...
    @property
    def leads(self) -> tuple[Lead, ...]: ...
    @property
    def n_samples(self) -> int | None:
        """How long it is over all blocks; None for a live device."""

    @property
    def angles(self) -> NDArray[np.float64] | None:
        """ecog: the joint angles (rows at 200 Hz, 8) of the whole session, where they are known."""

    def block_triggers(self) -> Sequence[tuple[int, Triggers]] | None:
        """(samples, triggers) of each block, known beforehand; None for a live device."""

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        """The session cut into packets; the last one of a block may be shorter, none is empty."""


class Source(Protocol):
    """What a URI names: `replay.sources.open_source` gives one."""

    @property
    def uri(self) -> str: ...
    @property
    def track(self) -> str | None:
        """The track that the source itself says it is for; None where it does not say."""

    @property
    def live(self) -> bool: ...
    def sessions(self) -> Iterator[Session]: ...
    def close(self) -> None: ...
