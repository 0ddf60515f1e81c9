"""A fitted device: its leads as was asked, leads and rate as its track has them; every change is said.

A recording is fitted when it is opened (`replay.transform.fit`), a device when it has told what it measures.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from bci_stream.packet import FloatArray, Triggers
from replay.devices.base import LiveSource
from replay.devices.packetiser import Packetiser
from replay.devices.status import DeviceStatus, Listener
from replay.devices.timing import Placed
from replay.model.options import SourceOptions, track_named
from replay.model.source import RawPacket, Session
from replay.transform.leads import LeadPlan, plan_leads
from replay.transform.resample import ResampledSignal, describe_resampling, ratio


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


class FittedSession:
    """Implements `replay.model.source.Session`. Packets whose leads are right already pass untouched."""

    n_samples = None
    angles = None
    masked = False

    def __init__(self, session: Session, plan: LeadPlan, rate: float) -> None:
        self.subject, self.rate = session.subject, rate
        self.leads, self.notes = plan.leads, plan.notes
        self._session = session
        self._pick = plan.picker(len(session.leads))
        self._resampler: LiveResampler | None = None
        if rate != session.rate:
            factor = ratio(session.subject, session.rate, rate)
            self._resampler = LiveResampler(session.rate, factor, len(plan.leads))
            delay_s = self._resampler.delay_s
            self.notes += (describe_resampling(session.rate, rate, "the track's rate", delay_s),)

    def block_triggers(self) -> None:
        return None

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        if self._resampler is None:
            return self._picked(packet_samples)
        picked = self._picked(self._resampler.asked_for(packet_samples))
        return self._resampler.packets(picked, packet_samples)

    def _picked(self, packet_samples: int) -> Iterator[RawPacket]:
        packets, pick = self._session.packets(packet_samples), self._pick
        if pick is None:
            return packets
        return (replace(packet, samples=pick(packet.samples)) for packet in packets)


class FittedDevice:
    """Implements `replay.model.source.Source`: a live device, played under options about its leads."""

    live = True
    track = None

    def __init__(self, device: LiveSource, options: SourceOptions) -> None:
        self.uri = device.uri
        self.device = device
        self._options = options

    @property
    def status(self) -> DeviceStatus:
        return self.device.status

    def listen(self, listener: Listener) -> None:
        self.device.listen(listener)

    def close(self) -> None:
        self.device.close()

    def sessions(self) -> Iterator[Session]:
        options = self._options
        track = track_named(options.track) if options.track and not options.as_is else None
        for session in self.device.sessions():
            if track is None and not options.asked:
                yield session
            else:
                plan = plan_leads(self.uri, session.leads, options, track)
                yield FittedSession(session, plan, float(track.rate) if track else session.rate)
