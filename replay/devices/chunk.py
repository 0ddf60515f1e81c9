"""Samples on their way from a device to packets: chunks as received, numbered chunks, packets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bci_stream.packet import FloatArray, Lead, Triggers
from replay.model.source import RawPacket


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a device measures. It must not change while the device is on the wire."""

    rate: float
    leads: tuple[Lead, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Samples that a device delivered together, without a gap inside.

    samples: (n, leads) float32, microvolts, n >= 1.
    triggers: (offset in the chunk, code), in order.
    lost: number of samples missing before this chunk; None if some are missing and the device does
        not count them (the number is then estimated from the time that passed).
    stamp: LSL time of the last sample; None if the device does not stamp its samples.
    newer: number of later samples that have been received already and are held back.
    arrival: LSL time at which it was received; None: when `Device.read` returned.
    """

    samples: FloatArray
    triggers: Triggers = ()
    lost: int | None = 0
    stamp: float | None = None
    newer: int = 0
    arrival: float | None = None

    @property
    def n(self) -> int:
        return len(self.samples)


@dataclass(frozen=True, slots=True)
class Placed:
    """A chunk with its place in the stream.

    start: number of its first sample, counted from the first sample of the stream.
    lost: number of samples missing before it; exact: whether the device counted them.
    """

    samples: FloatArray
    triggers: Triggers
    start: int
    lost: int = 0
    exact: bool = True

    @property
    def stop(self) -> int:
        return self.start + len(self.samples)


class Packetiser:
    """Cuts chunks of any size into packets of `packet_samples`.

    At a gap, the samples before it are sent as a short packet; the next packet begins with the first
    sample after the gap, and its `start` jumps by the number of lost samples.

    stamp: gives the LSL time of a sample by its number.
    """

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
        """Number of samples that the next packet still needs."""
        return self._size - self._collected

    def push(self, placed: Placed) -> Iterator[RawPacket]:
        """Add a chunk; yield the packets that are complete with it."""
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
            # Stamp now: the clock may restart at the gap that ends this packet.
            self._last_stamp = self._stamp(self._start + self._collected - 1)
            if self._collected == self._size:
                yield self._packet()

    def flush(self, last_of_block: bool = False) -> Iterator[RawPacket]:
        """Yield the remaining samples as a short packet."""
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
