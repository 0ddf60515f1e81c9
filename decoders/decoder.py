"""A decoder: told that a subject begins, then fed packet by packet; what it returns is reported.

Write your own in one file:

    class Mine:
        def start(self, info: SignalInfo) -> None:      # a subject begins
            self.seen = 0

        def step(self, packet: Packet) -> list[object]:  # results to report now, often none
            self.seen += packet.n
            return []

and run it with `bci-decode --track mi --decoder my_module:Mine`.
"""

from collections.abc import Iterable, Sequence
from traceback import extract_tb
from typing import Protocol, runtime_checkable

from bci_stream.packet import Packet, SignalInfo


class Decoder(Protocol):
    """What every decoder offers. A decoder may keep what it learned from one subject to the next."""

    def start(self, info: SignalInfo) -> None:
        """A subject begins; forget what belongs to the one before."""

    def step(self, packet: Packet) -> Sequence[object]:
        """Take one packet, and return the results to report after it, in order.

        The packet's arrays are valid during the call only, and may not be changed: copy what you keep.
        """


@runtime_checkable
class ChannelChooser(Protocol):
    """A decoder for a track that sends only chosen leads (ecog: 24 of 32)."""

    def choose(self, info: SignalInfo, count: int) -> Sequence[int]:
        """The numbers (from 1) of the leads to be sent for this subject, before any data."""


def reports_of(decoder: Decoder, packet: Packet) -> Sequence[object]:
    """What a decoder returns; a text alone would go out letter by letter, None not at all."""
    results: object = decoder.step(packet)
    if isinstance(results, str) or not isinstance(results, Iterable):
        raise TypeError(
            f"step() returned {results!r}; it returns a list of results, [] where there is none"
        )
    return list(results)


def format_exception(error: BaseException) -> str:
    """E.g. "ValueError: no such lead (mine.py, line 12)"."""
    text = f"{type(error).__name__}: {error}"
    frames = extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:  # it says itself where
        return text
    place = frames[-1].filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{text} ({place}, line {frames[-1].lineno})"
