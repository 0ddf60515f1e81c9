"""The transport protocols: streams of samples and of texts. Implemented by LSL and, for tests, in memory.

The rest of the project uses these protocols only, so it runs without a socket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Lead

MOST_TEXTS = 300_000
"""How many texts an inlet keeps for a slow reader by default; of more the oldest are dropped."""

MAX_TEXT_BYTES = 1 << 26
"""Texts are cut at this length before they are decoded."""

ChannelFormat = Literal["float32", "int32", "string"]


@dataclass(frozen=True)
class StreamSpec:
    """Metadata of a stream.

    source_id: unique and stable, so that a stream is found again after a restart. rate: in Hz, 0 if
    irregular. leads: the channels of a signal; other streams have one channel.
    """

    name: str
    type: str
    source_id: str
    format: ChannelFormat = "string"
    rate: float = 0.0
    leads: tuple[Lead, ...] = ()
    meta: Mapping[str, str] = field(default_factory=dict)

    @property
    def channels(self) -> int:
        return len(self.leads) or 1


@dataclass(frozen=True)
class FoundStream:
    """A stream on the network; uid: changes each time its owner is restarted."""

    name: str
    type: str
    source_id: str
    uid: str
    handle: object = field(compare=False, repr=False)


def number_text(value: float | np.number[Any]) -> str:
    """Format a number as a text; an integer without a decimal point, whatever its type."""
    number = float(value)
    return str(int(number)) if number.is_integer() else str(number)


class TextOutlet(Protocol):
    @property
    def uid(self) -> str:
        """The stream's uid, as whoever finds it reads it."""

    def push(self, text: str, stamp: float = 0.0) -> None:
        """Send one text; stamp 0 means now."""

    def has_consumers(self) -> bool: ...
    def close(self) -> None: ...


class TextInlet(Protocol):
    def pull(self, timeout_s: float) -> list[tuple[str, float]]:
        """All texts that have arrived, with their stamps; waits up to timeout_s for the first one.

        Bytes that are not UTF-8 are replaced by U+FFFD: anyone on the network may send garbage, which must
        not stop a judge; a text is cut at MAX_TEXT_BYTES. A numeric stream gives its first channel as text.
        Raises LostError if the stream's owner is gone.
        """

    def clock_offset_s(self) -> float:
        """Seconds to add to a stamp to convert it to this machine's clock, as last measured.

        The first call may wait for a measurement; the transport repeats it every few seconds.
        """

    def close(self) -> None: ...


class SampleOutlet(Protocol):
    @property
    def uid(self) -> str:
        """The stream's uid, as whoever finds it reads it."""

    def push(
        self, samples: FloatArray | NDArray[np.int32], stamps: float | Sequence[float]
    ) -> float:
        """Send (n, channels) samples; stamps: of the last, or of each. Returns the time of sending."""

    def has_consumers(self) -> bool: ...
    def close(self) -> None: ...


class SampleInlet(Protocol):
    @property
    def spec(self) -> StreamSpec: ...

    def pull(self, n: int, timeout_s: float) -> tuple[FloatArray, NDArray[np.float64]]:
        """Up to n samples (m, channels) and their m stamps; fewer after timeout_s.

        The arrays belong to the caller. Raises LostError if the stream's owner is gone.
        """

    def clock_offset_s(self) -> float:
        """Seconds to add to a stamp to convert it to this machine's clock."""

    def close(self) -> None: ...


class Watch(Protocol):
    """A continuous search for streams."""

    def found(self) -> list[FoundStream]:
        """The streams that exist now."""

    def close(self) -> None: ...


class Transport(Protocol):
    def now(self) -> float:
        """The clock of time stamps, in seconds."""

    def watch(self, prefix: str) -> Watch:
        """Search for streams whose source_id begins with prefix, until closed."""

    def text_outlet(self, spec: StreamSpec) -> TextOutlet: ...
    def text_inlet(
        self,
        found: FoundStream,
        timeout_s: float,
        most_texts: int = MOST_TEXTS,
        *,
        measure_clock: bool = False,
    ) -> TextInlet:
        """Open a stream of texts; most_texts: how many are kept for a slow reader, about.

        measure_clock: whether the clock offset is measured before texts are sent, also within timeout_s.
        Raises NotFoundError if it can't be opened within timeout_s.
        """

    def sample_outlet(self, spec: StreamSpec) -> SampleOutlet: ...
    def sample_inlet(self, found: FoundStream, timeout_s: float) -> SampleInlet: ...
