"""Raw packets in, what may be shown out: masked by the track, TRIGGER laid beside the leads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from bci_stream.errors import BciError, TruthError
from bci_stream.packet import Packet, Triggers, with_trigger
from replay.model.source import RawPacket, Session
from replay.player.plan import PlaybackPlan
from tracks.common.truth import TruthEvent
from tracks.track import Track


class LiveTruth:
    """Feeds a track's reader trigger by trigger; where one does not fit, begins anew with it."""

    def __init__(self, track: Track, rate: float) -> None:
        self._track = track
        self._rate = rate
        self._reader = track.truth(rate)

    def step(
        self, block: int, start: int, n: int, triggers: Triggers
    ) -> tuple[list[TruthEvent], list[str]]:
        """Truth lines, and what did not fit, in words."""
        events: list[TruthEvent] = []
        troubles: list[str] = []
        for trigger in triggers:
            try:
                events += self._reader.step(block, start, n, (trigger,))
            except TruthError as error:
                troubles.append(str(error))
                events += self._after_gap(block, start, n, trigger)
        return events, troubles

    def _after_gap(
        self, block: int, start: int, n: int, trigger: tuple[int, int]
    ) -> list[TruthEvent]:
        """What was open is forgotten; the trigger itself may begin something new."""
        before = self._reader
        self._reader = self._track.truth(self._rate)
        self._reader.continue_from(before)
        try:
            return self._reader.step(block, start, n, (trigger,))
        except TruthError:
            return []


@dataclass(frozen=True)
class MaskedPacket:
    """A packet as a decoder may see it; truth that became known with it; a live device's stamp.

    trouble: labelled triggers of a live device that did not fit together, in words.
    round: how often the program was played before.
    """

    session: int
    packet: Packet
    truth: tuple[dict[str, Any], ...]
    stamp: float | None
    trouble: tuple[str, ...] = ()
    round: int = 0


def masked_packets(program: PlaybackPlan) -> Iterator[MaskedPacket]:
    """The whole program, packet by packet; `finish` is set on the very last one."""
    for number, session in enumerate(program.sessions):
        last_session = number == len(program.sessions) - 1
        yield from _session_packets(program, number, session, last_session)


def looped_packets(program: PlaybackPlan) -> Iterator[MaskedPacket]:
    """Round after round, for as long as anybody asks; so none says `finish`."""
    for number in count():
        for shown in masked_packets(program):
            yield replace(shown, packet=replace(shown.packet, finish=False), round=number)


def _session_packets(
    program: PlaybackPlan, number: int, session: Session, last_session: bool
) -> Iterator[MaskedPacket]:
    track = program.track
    mask, masked_block = None, None
    live_truth = (
        LiveTruth(track, session.rate) if track and program.truths[number] is None else None
    )
    for raw, is_last in _with_last(session.packets(program.packet_samples)):
        truth, trouble = _truth(live_truth, raw)
        leads, triggers = raw.samples, raw.triggers
        if track and raw.block != masked_block:  # what one block began is not shown in the next
            mask, masked_block = track.mask(session.rate), raw.block
        if mask is not None:
            leads, triggers = mask.step(leads, triggers)
        samples = with_trigger(leads, triggers)  # where several share a sample, the note has all
        finish = is_last and last_session
        packet = Packet(samples, triggers, raw.start, raw.block, session.subject, finish)
        yield MaskedPacket(number, packet, tuple(truth), raw.stamp, tuple(trouble))


def _truth(reader: LiveTruth | None, raw: RawPacket) -> tuple[list[dict[str, Any]], list[str]]:
    if reader is None:
        return [], []
    return reader.step(raw.block, raw.start, len(raw.samples), raw.triggers)


def _with_last(packets: Iterator[RawPacket]) -> Iterator[tuple[RawPacket, bool]]:
    """Each packet, and whether it is the last: known only by looking one ahead.

    A live device's packets are handed on at once; it marks the last one itself, where it knows it.
    """
    previous: RawPacket | None = None
    try:
        for packet in packets:
            if packet.stamp is not None:
                yield packet, packet.last_of_block
                continue
            if previous is not None:
                yield previous, False
            previous = packet
    except BciError:  # a packet that can't be read takes none with it that can
        if previous is not None:
            yield previous, False
        raise
    if previous is not None:
        yield previous, True
