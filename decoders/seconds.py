"""Seconds of a block, as a decoder counts them: five packets each, from the packet after 242 on.

It cuts the stream where the track's packets end, so what a second holds does not depend on how the
stream was cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from bci_stream.packet import Packet
from tracks.codes import BLOCK_END, BLOCK_START
from tracks.seconds import PACKETS_A_SECOND


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples begin to end of a packet. first: a block begins with it; completes: a second is
    over."""

    begin: int
    end: int
    inside: bool
    first: bool
    completes: bool


class Seconds:
    """Told the packets, says which of their samples belong to which second."""

    def __init__(self, packet_samples: int) -> None:
        self._packet = packet_samples
        self._last = -1
        self._leave()

    def stretches(self, packet: Packet) -> Iterator[Stretch]:
        """The packet in pieces that end where the track's packets do."""
        if packet.start < self._last:
            self._leave()
        self._last = packet.start
        for begin, end in self._pieces(packet):
            yield self._stretch(packet.start + begin, begin, end)
            for at, code in packet.triggers:
                if begin <= at < end:
                    self._see(code, packet.start + at)

    def _leave(self) -> None:
        self._origin: int | None = None
        self._until: int | None = None

    def _pieces(self, packet: Packet) -> Iterator[tuple[int, int]]:
        bounds = range(self._packet - packet.start % self._packet, packet.n, self._packet)
        cuts = [0, *bounds, packet.n]
        yield from ((a, b) for a, b in pairwise(cuts) if b > a)

    def _see(self, code: int, position: int) -> None:
        end_of_packet = (position // self._packet + 1) * self._packet
        if code == BLOCK_START:
            self._origin, self._until = end_of_packet, None
        elif code == BLOCK_END:
            self._until = end_of_packet  # its packet still belongs to the block

    def _stretch(self, position: int, begin: int, end: int) -> Stretch:
        if self._until is not None and position >= self._until:
            self._leave()
        if self._origin is None or position < self._origin:
            return Stretch(begin, end, inside=False, first=False, completes=False)
        gone = position + (end - begin) - self._origin
        over = gone % (PACKETS_A_SECOND * self._packet) == 0
        return Stretch(begin, end, inside=True, first=position == self._origin, completes=over)
