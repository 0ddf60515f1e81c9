"""A transport carries streams of samples and of texts; LSL is one, memory is its twin for tests.

Everything else in the project speaks to these few protocols, so it can be run without a socket.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Lead

ChannelFormat = Literal["float32", "int32", "string"]


@dataclass(frozen=True)
class StreamSpec:
    """What a stream is, as anyone on the network can see it.

    source_id is unique and stable: it is how a stream is found, and found again after a restart.
    rate 0 means irregular. `leads` describes the channels of a signal; other streams have one channel.
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
    """A stream that was seen on the network; `uid` differs each time its owner starts anew."""

    name: str
    type: str
    source_id: str
    uid: str
    handle: object = field(compare=False, repr=False)


def number_text(value: float | np.number[Any]) -> str:
    """A number as a text; a whole one without a point, whatever its format."""
    number = float(value)
    return str(int(number)) if number.is_integer() else str(number)


class TextOutlet(Protocol):
    def push(self, text: str, stamp: float = 0.0) -> None:
        """Send one text; stamp 0 means now."""

    def has_consumers(self) -> bool: ...
    def close(self) -> None: ...


class TextInlet(Protocol):
    def pull(self, timeout_s: float) -> list[tuple[str, float]]:
        """All texts that are there, with their stamps; waits up to timeout_s for the first one.

        A text that is no UTF-8 comes with U+FFFD in it rather than as an error: a stranger's garbage
        must not stop a judge. A stream of numbers gives its first channel, written out. Raises
        LostError where the stream's owner is gone.
        """

    def clock_offset_s(self) -> float:
        """What to add to a stamp to have it in this machine's clock."""

    def close(self) -> None: ...


class SampleOutlet(Protocol):
    def push(
        self, samples: FloatArray | NDArray[np.int32], stamps: float | Sequence[float]
    ) -> float:
        """Send (n, channels) samples; stamps: of the last one, or of each one. Returns when they left."""

    def has_consumers(self) -> bool: ...
    def close(self) -> None: ...


class SampleInlet(Protocol):
    @property
    def spec(self) -> StreamSpec: ...

    def pull(self, n: int, timeout_s: float) -> tuple[FloatArray, NDArray[np.float64]]:
        """Up to n samples (m, channels) and their m stamps; fewer where timeout_s ran out.

        The arrays are the caller's to keep. Raises LostError where the stream's owner is gone.
        """

    def clock_offset_s(self) -> float:
        """What to add to a stamp to have it in this machine's clock."""

    def close(self) -> None: ...


class Watch(Protocol):
    """A standing search for streams."""

    def found(self) -> list[FoundStream]:
        """The streams that are there now."""

    def close(self) -> None: ...


class Transport(Protocol):
    def now(self) -> float:
        """The clock that stamps are in, in seconds."""

    def watch(self, prefix: str) -> Watch:
        """Look for streams whose source_id begins with prefix, until closed."""

    def text_outlet(self, spec: StreamSpec) -> TextOutlet: ...
    def text_inlet(self, found: FoundStream, timeout_s: float) -> TextInlet: ...
    def sample_outlet(self, spec: StreamSpec) -> SampleOutlet: ...
    def sample_inlet(self, found: FoundStream, timeout_s: float) -> SampleInlet: ...
