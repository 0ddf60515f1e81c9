"""What every source of packets provides: sessions, one a subject, each with its own leads.

Packets of a source are raw: their triggers are labelled, nothing is masked, and the samples have no TRIGGER
column yet. `replay.transform.masking.masked_packets` turns them into what a decoder may see.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Lead, Triggers


@dataclass(frozen=True, slots=True)
class RawPacket:
    """A piece of a source, unmasked.

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
        """Samples of all blocks together; None for a live device."""

    @property
    def angles(self) -> NDArray[np.float64] | None:
        """ecog: the joint angles (rows at 200 Hz, 8) of the whole session, where they are known."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided while reading and fitting, one line each; the commands log them."""

    @property
    def masked(self) -> bool:
        """True where the labels were removed from the recording, so that it has no truth."""

    def block_triggers(self) -> Sequence[tuple[int, Triggers]] | None:
        """(samples, triggers) of each block, known beforehand; None for a live device."""

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        """The session cut into packets; the last one of a block may be shorter, none is empty."""


class SourceStatus(Protocol):
    """State of a live device at one moment; `str()` gives it as one line for the log."""

    @property
    def state(self) -> str: ...
    @property
    def public(self) -> str:
        """Details that may be sent to everyone: numbers, never the device's own text."""

    def as_dict(self) -> dict[str, Any]:
        """The status as JSON values, for the daemon's state file."""


class LiveDevice(Protocol):
    """A device that measures now."""

    replay_name: str
    """The name of the replay that plays it, for manual triggers; empty: the kind of device."""

    @property
    def uri(self) -> str: ...
    @property
    def status(self) -> SourceStatus: ...
    def listen(self, listener: Callable[[SourceStatus], None]) -> None:
        """Call `listener` at each change of the status, on the thread that reads the device."""

    def close(self) -> None:
        """End every wait, from any thread."""


class Source(Protocol):
    """What a URI names; `replay.sources.open_source` opens it."""

    @property
    def uri(self) -> str: ...
    @property
    def track(self) -> str | None:
        """The track that the source itself names; None where it names none."""

    @property
    def device(self) -> LiveDevice | None:
        """The device that is read; None for recordings."""

    @property
    def live(self) -> bool: ...
    def sessions(self) -> Iterator[Session]: ...
    def close(self) -> None: ...
