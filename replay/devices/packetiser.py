"""A packetiser cuts a device's chunks, of any size, into packets of the track's size.

A gap begins a new segment: what was collected before it goes out as a short packet, and the next
packet begins with the first sample after it, its `start` jumped by what was lost.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bci_stream.packet import FloatArray
from replay.devices.timing import Placed
from replay.model.source import RawPacket


class Packetiser:
    """stamp: the LSL time of a sample by its number."""

    def __init__(self, packet_samples: int, stamp: Callable[[int], float]) -> None:
        self._size = packet_samples
        self._stamp = stamp
        self._start = 0
        self._pieces: list[FloatArray] = []
        self._collected = 0
        self._last_stamp = 0.0
        self._triggers: list[tuple[int, int]] = []

    @property
    def missing(self) -> int:
        """How many samples the next packet still needs."""
        return self._size - self._collected

    def push(self, placed: Placed) -> Iterator[RawPacket]:
        if placed.start != self._start + self._collected:
            yield from self.flush()
            self._start = placed.start
        triggers = list(placed.triggers)
        begin, n = 0, len(placed.samples)
        while begin < n:
            take = min(n - begin, self._size - self._collected)
            while triggers and triggers[0][0] < begin + take:
                offset, code = triggers.pop(0)
                self._triggers.append((self._collected + offset - begin, code))
            self._pieces.append(placed.samples[begin : begin + take])
            self._collected += take
            begin += take
            # Now, since after a gap the clock counts anew, which does not concern what came before it.
            self._last_stamp = self._stamp(self._start + self._collected - 1)
            if self._collected == self._size:
                yield self._packet()

    def flush(self, last_of_block: bool = False) -> Iterator[RawPacket]:
        """What is left, as a short packet."""
        if self._collected:
            yield self._packet(last_of_block)

    def _packet(self, last_of_block: bool = False) -> RawPacket:
        pieces = self._pieces
        samples = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        stop = self._start + self._collected
        packet = RawPacket(
            np.ascontiguousarray(samples),
            tuple(self._triggers),
            self._start,
            block=0,
            last_of_block=last_of_block,
            stamp=self._last_stamp,
        )
        self._start, self._collected = stop, 0
        self._pieces, self._triggers = [], []
        return packet
