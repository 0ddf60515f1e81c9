"""Masking: turns a labelled session into the packets that a decoder may see.

`masked_packets` is the only place where that happens. The player, `prepare`, offline runs, cross-validation
and the checks of decoders all call it, so that they all see the same packets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from bci_stream.errors import TruthError
from bci_stream.packet import Packet, with_trigger
from replay.model.events import text_of
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import RawPacket, Session
from tracks.common.truth import TruthEvent
from tracks.track import Track

PACKET_S = 0.04
"""Length of a packet where no track sets it."""


@dataclass(frozen=True, slots=True)
class MaskedPacket(Packet):
    """A packet that a decoder may see, with what the player needs to publish it.

    session, round: number of its session, and how often all sessions were played before.
    stamp: LSL time of the last sample, from a live device; None where the player sets the pace.
    truth: labels that became known with this packet. Of recordings they are known beforehand, so it is empty.
    truth_errors: labelled triggers of a live device that break the track's rules, one line each.
    texts: of its triggers, in their order, empty for one without a text; none at all with a track, whose
        labels they could give away.
    last_of_session: whether no other packet of its session follows; never of a live device's.
    """

    session: int = 0
    round: int = 0
    stamp: float | None = None
    truth: tuple[TruthEvent, ...] = ()
    truth_errors: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    last_of_session: bool = False

    @property
    def markers(self) -> tuple[tuple[int, int, str], ...]:
        """(offset, code, text) of each trigger; the text is the code's digits for one that has none."""
        texts = self.texts or ("",) * len(self.triggers)
        return tuple(
            (offset, code, text or str(code))
            for (offset, code), text in zip(self.triggers, texts, strict=True)
        )


def packet_samples_of(track: Track | None, rate: float) -> int:
    """Samples in a whole packet at this rate."""
    if track is not None:
        return track.packet_samples_at(rate)
    return max(1, round(PACKET_S * rate))


def masked_packets(
    track: Track | None,
    session: Session,
    leads: Sequence[int] | None = None,
    *,
    number: int = 0,
    round_number: int = 0,
    last: bool = True,
) -> Iterator[MaskedPacket]:
    """The packets of a session, masked by its track, with TRIGGER as the last column.

    track: None masks nothing. leads: columns of the chosen leads, counted from 0; None for all.
    number, round_number: which session this is, and in which round of the replay.
    last: whether the run ends with this session; then its last packet has `finish`.
    """
    total, sent = session.n_samples, 0
    mask, masked_block = None, None
    reader = LiveTruth(track, session.rate) if track and total is None else None
    for raw in session.packets(packet_samples_of(track, session.rate)):
        sent += len(raw.samples)
        truth, errors = reader.step(raw) if reader is not None else ((), ())
        samples, triggers = raw.samples, raw.triggers
        if track and raw.block != masked_block:  # a mask ends with its block
            mask, masked_block = track.mask(session.rate), raw.block
        if mask is not None:
            samples, triggers = mask.step(samples, triggers)
        # A text is a label: with a track none is passed on, whether the mask changed its code or not.
        texts = tuple(text_of(code) for _, code in triggers) if track is None else ()
        triggers = tuple((offset, int(code)) for offset, code in triggers)
        if leads is not None:
            samples = samples[:, leads]
        yield MaskedPacket(
            samples=with_trigger(samples, triggers),
            triggers=triggers,
            start=raw.start,
            block=raw.block,
            subject=session.subject,
            finish=last and (raw.last_of_block if total is None else sent == total),
            session=number,
            round=round_number,
            stamp=raw.stamp,
            truth=truth,
            truth_errors=errors,
            texts=texts if any(texts) else (),
            last_of_session=sent == total,
        )


def masked_recording(track: Track, session: Session) -> Recording:
    """The same packets joined into blocks in memory; without labels and angles."""
    blocks = []
    for _, packets in groupby(masked_packets(track, session), lambda packet: packet.block):
        block = list(packets)
        triggers = tuple((p.start + offset, code) for p in block for offset, code in p.triggers)
        blocks.append(ArrayBlock(np.concatenate([p.signal for p in block]), triggers))
    return Recording(session.subject, session.rate, session.leads, blocks, masked=True)


class LiveTruth:
    """Reads the labels of a live device trigger by trigger; starts over after one that breaks the rules."""

    def __init__(self, track: Track, rate: float) -> None:
        self._track = track
        self._rate = rate
        self._reader = track.truth(rate)

    def step(self, raw: RawPacket) -> tuple[tuple[TruthEvent, ...], tuple[str, ...]]:
        """Truth that became known with this packet, and which of its triggers break the rules."""
        events: list[TruthEvent] = []
        errors: list[str] = []
        for trigger in raw.triggers:
            try:
                events += self._read(raw, trigger)
            except TruthError as error:
                errors.append(str(error))
                events += self._restart(raw, trigger)
        return tuple(events), tuple(errors)

    def _read(self, raw: RawPacket, trigger: tuple[int, int]) -> list[TruthEvent]:
        return self._reader.step(raw.block, raw.start, len(raw.samples), (trigger,))

    def _restart(self, raw: RawPacket, trigger: tuple[int, int]) -> list[TruthEvent]:
        """Drop the open trial (a gap lost one of its triggers); this trigger may begin the next one."""
        before = self._reader
        self._reader = self._track.truth(self._rate)
        self._reader.continue_from(before)
        try:
            return self._read(raw, trigger)
        except TruthError:
            return []
