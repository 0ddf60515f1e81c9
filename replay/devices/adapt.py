"""Adapts a live session to options and track: picks and renames leads, resamples.

A recording is adapted when it is opened (`replay.transform.fit`), a device once it is known what it
measures. Each change is described in the session's notes.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from bci_stream.packet import FloatArray, Triggers
from replay.devices.chunk import Packetiser, Placed
from replay.model.options import SourceOptions, track_named
from replay.model.source import RawPacket, Session
from replay.transform.leads import LeadPlan, plan_leads
from replay.transform.resample import ResampledSignal, describe_resampling, ratio


class LiveResampler:
    """Resamples packets causally. rate: the device's; factor: new rate / rate; leads: their number."""

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

    def device_samples(self, packet_samples: int) -> int:
        """Number of device samples that make a packet of so many resampled ones."""
        return max(1, packet_samples * self._down // self._up)

    def packets(self, packets: Iterator[RawPacket], packet_samples: int) -> Iterator[RawPacket]:
        cutter = Packetiser(packet_samples, self._stamp)
        for packet in packets:
            made = list(cutter.push(self._step(packet)))
            is_short = len(packet.samples) < self.device_samples(packet_samples)
            if is_short or packet.last_of_block:  # nothing follows it at once
                made += cutter.flush()
            if packet.last_of_block:
                made[-1:] = [replace(last, last_of_block=True) for last in made[-1:]]
            yield from made
        yield from cutter.flush(last_of_block=True)

    def _step(self, packet: RawPacket) -> Placed:
        """The resampled samples that become known with this packet."""
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
        """The first resampled sample at or after the time of a device sample."""
        return -(-sample * self._up // self._down)

    def _due(self, begin: int, is_last: bool) -> Triggers:
        """Triggers on samples before self._next; at the end of the session, all that are left."""
        end = self._next
        due = [(at, code) for at, code in self._triggers if at < end or is_last]
        self._triggers = [] if is_last else [one for one in self._triggers if one[0] >= end]
        return tuple((min(max(at, begin), end - 1) - begin, code) for at, code in due)

    def _stamp(self, index: int) -> float:
        last, stamp = self._known
        return stamp - (last - index * self._down / self._up) / self._rate


class _Segment:
    """The samples since the last gap, by the device's numbers: a `Signal` that grows.

    Before its beginning, the first sample is repeated, as at the beginning of a recording.
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


class AdaptedSession:
    """Implements `replay.model.source.Session`. Packets that need no change are passed on as they are."""

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
        picked = self._picked(self._resampler.device_samples(packet_samples))
        return self._resampler.packets(picked, packet_samples)

    def _picked(self, packet_samples: int) -> Iterator[RawPacket]:
        packets, pick = self._session.packets(packet_samples), self._pick
        if pick is None:
            return packets
        return (replace(packet, samples=pick(packet.samples)) for packet in packets)


def adapt_session(session: Session, uri: str, options: SourceOptions) -> Session:
    """The session with leads and rate as options and track ask; the same one if they ask nothing."""
    track = track_named(options.track) if options.track and not options.as_is else None
    if track is None and not options.asked:
        return session
    plan = plan_leads(uri, session.leads, options, track)
    return AdaptedSession(session, plan, float(track.rate) if track else session.rate)
