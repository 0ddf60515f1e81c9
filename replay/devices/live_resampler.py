"""A live resampler: packets at a device's own rate in, packets at its track's rate out.

The filter is a recording's (`replay.resample`): it looks at nothing that comes later. After a gap it begins
anew; samples and triggers keep the places that the device's own numbers give them.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from bci_stream.packet import FloatArray, Triggers
from replay.devices.packetiser import Packetiser
from replay.devices.timeline import Placed
from replay.resample import ResampledSignal
from replay.source import RawPacket


class LiveResampler:
    """rate: the device's; factor: the new rate in units of it; leads: how many there are."""

    def __init__(self, rate: float, factor: Fraction, leads: int) -> None:
        self._rate, self._up, self._down = rate, factor.numerator, factor.denominator
        self._segment = _Segment(leads)
        self._signal = ResampledSignal(self._segment, self._up, self._down)
        self._next = 0
        self._triggers: list[tuple[int, int]] = []
        self._known = (0, 0.0)

    @property
    def delay_s(self) -> float:
        return self._signal.delay_s(self._rate)

    def asked_for(self, packet_samples: int) -> int:
        """How many of the device's samples make a packet of so many new ones."""
        return max(1, packet_samples * self._down // self._up)

    def packets(self, packets: Iterator[RawPacket], packet_samples: int) -> Iterator[RawPacket]:
        cutter = Packetiser(packet_samples, self._stamp)
        for packet in packets:
            made = list(cutter.push(self._step(packet)))
            if packet.last_of_block:
                made += cutter.flush()
                made[-1:] = [replace(last, last_of_block=True) for last in made[-1:]]
            yield from made
        yield from cutter.flush(last_of_block=True)

    def _step(self, packet: RawPacket) -> Placed:
        """The new samples that a packet makes possible; those of a gap have no number."""
        if packet.start != self._segment.n_samples:
            self._segment.begin(packet.start)
            self._next = self._place(packet.start)
        self._segment.append(packet.samples)
        self._known = (self._segment.n_samples - 1, packet.stamp or 0.0)
        begin, self._next = self._next, (self._segment.n_samples - 1) * self._up // self._down + 1
        samples = self._signal.read(begin, self._next)
        self._segment.forget(self._signal.oldest_for(self._next))
        self._triggers += [(self._place(packet.start + i), code) for i, code in packet.triggers]
        return Placed(samples, self._due(begin, packet.last_of_block), begin)

    def _place(self, sample: int) -> int:
        """The first new sample at or after the time of one of the device's."""
        return -(-sample * self._up // self._down)

    def _due(self, begin: int, is_last: bool) -> Triggers:
        """A trigger that falls behind the last new sample stands on the next; at the very end, on that."""
        end = self._next
        due = [(at, code) for at, code in self._triggers if at < end or is_last]
        self._triggers = [] if is_last else [one for one in self._triggers if one[0] >= end]
        return tuple((min(max(at, begin), end - 1) - begin, code) for at, code in due)

    def _stamp(self, index: int) -> float:
        last, stamp = self._known
        return stamp - (last - index * self._down / self._up) / self._rate


class _Segment:
    """The latest samples since a gap, by the device's numbers: a `Signal` that grows.

    What is asked for before its beginning is its first sample, as at a recording's beginning.
    """

    def __init__(self, leads: int) -> None:
        self._start = 0
        self._samples: FloatArray = np.empty((0, leads), dtype=np.float32)

    @property
    def n_samples(self) -> int:
        return self._start + len(self._samples)

    def begin(self, start: int) -> None:
        self._start, self._samples = start, self._samples[:0]

    def append(self, samples: FloatArray) -> None:
        self._samples = np.concatenate([self._samples, samples])

    def forget(self, before: int) -> None:
        kept = max(before - self._start, 0)
        self._start, self._samples = self._start + kept, self._samples[kept:]

    def read(self, start: int, stop: int) -> FloatArray:
        held = min(max(self._start - start, 0), stop - start)
        first, last = start + held - self._start, stop - self._start
        return np.concatenate(
            [np.repeat(self._samples[:1], held, axis=0), self._samples[first : max(last, first)]]
        )
