"""The decoder interface: `start(info)` for each subject, then `step(packet)` for each packet.

Write your own in one file:

    class Mine:
        def start(self, info: SignalInfo) -> None:      # a subject begins
            self.seen = 0

        def step(self, packet: Packet) -> list[object]:  # results to report now, often none
            self.seen += packet.n
            return []

and run it with `bci-decode --track mi --decoder my_module:Mine`.

The constructor may declare two keywords, which are passed by name where they are declared:
`model` (a `decoders.model.Model`, or None without --model) and `seed` (an int).
Further methods are optional: `ChannelChooser`, `HasNotice` and `Closeable` describe them.
"""

import math
from collections.abc import Iterable, Sequence
from traceback import extract_tb
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from bci_stream.errors import BciError
from bci_stream.packet import Packet, SignalInfo


class Decoder(Protocol):
    """The two methods of every decoder. State may be kept from one subject to the next."""

    def start(self, info: SignalInfo) -> None:
        """Prepare for a new subject, and reset what belongs to the previous one."""

    def step(self, packet: Packet) -> Sequence[object]:
        """Process one packet and return the results to report after it, in order.

        The packet's arrays are valid during the call only and must not be modified: copy what you keep.
        """


@runtime_checkable
class ChannelChooser(Protocol):
    """Optional: a decoder for a track that sends only chosen leads (ecog: 24 of 32)."""

    def choose(self, info: SignalInfo, count: int) -> Sequence[int]:
        """Return the numbers (from 1) of the leads to send for this subject, before any data."""


@runtime_checkable
class HasNotice(Protocol):
    """Optional: a line for the user, logged before the run (an untrained fallback, for example)."""

    notice: str


@runtime_checkable
class Closeable(Protocol):
    """Optional: releases processes and files when the run is over."""

    def close(self) -> None: ...


class DecoderError(BciError):
    """A decoder that cannot be found, constructed or trained."""


class DecoderFailure(BciError):
    """A decoder that ends its own run with a known ending.

    ending: the `reason` of the run log's `end` line.
    results: reported before the failure; the worker sends them first, because they count.
    """

    ending: ClassVar[str] = "crashed"

    def __init__(self, message: str, results: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.results = list(results)


def reports_of(decoder: Decoder, packet: Packet) -> Sequence[object]:
    """Call step() and return its results as a list; raises TypeError for a string or no iterable."""
    results: object = decoder.step(packet)
    if isinstance(results, str) or not isinstance(results, Iterable):
        raise TypeError(
            f"step() returned {results!r}; it returns a list of results, [] where there is none"
        )
    return list(results)


def json_value(result: object) -> Any:
    """Convert a result to JSON types; what JSON cannot represent becomes text, which no rule accepts."""
    if isinstance(result, np.generic):
        return json_value(result.item())
    if isinstance(result, np.ndarray):
        return json_value(result.tolist())
    if isinstance(result, list | tuple):
        return [json_value(value) for value in result]
    if isinstance(result, float) and not math.isfinite(result):
        return str(result)
    if result is None or isinstance(result, bool | int | float | str):
        return result
    return repr(result)


def format_exception(error: BaseException) -> str:
    """Format as one line with the place, e.g. "ValueError: no such lead (mine.py, line 12)"."""
    text = f"{type(error).__name__}: {error}"
    frames = extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:  # its text has the place already
        return text
    place = frames[-1].filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{text} ({place}, line {frames[-1].lineno})"
