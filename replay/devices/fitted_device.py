"""A fitted device: its leads as was asked, leads and rate as its track has them; every change is said.

A recording is fitted when it is opened (`replay.fit`), a device when it has told what it measures.
"""

from collections.abc import Iterator
from dataclasses import replace

from replay.devices.live import LiveSource
from replay.devices.live_resampler import LiveResampler
from replay.devices.status import DeviceStatus, Listener
from replay.lead_order import LeadPlan, plan_leads
from replay.options import SourceOptions
from replay.resample import ratio, said_aloud
from replay.source import RawPacket, Session
from replay.track_facts import track_named


class FittedSession:
    """Implements `replay.source.Session`. Packets whose leads are right already pass untouched."""

    n_samples = None
    angles = None

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
            self.notes += (said_aloud(session.rate, rate, "the track's rate", delay_s),)

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
    """Implements `replay.source.Source`: a live device, played under options about its leads."""

    live = True
    track = None

    def __init__(self, device: LiveSource, options: SourceOptions) -> None:
        self.uri = device.uri
        self._device = device
        self._options = options

    @property
    def status(self) -> DeviceStatus:
        return self._device.status

    def listen(self, listener: Listener) -> None:
        self._device.listen(listener)

    def close(self) -> None:
        self._device.close()

    def sessions(self) -> Iterator[Session]:
        options = self._options
        track = track_named(options.track) if options.track and not options.as_is else None
        for session in self._device.sessions():
            if track is None and not options.asked:
                yield session
            else:
                plan = plan_leads(self.uri, session.leads, options, track)
                yield FittedSession(session, plan, float(track.rate) if track else session.rate)
