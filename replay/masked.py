"""Raw packets in, what may be shown out: masked by the track, TRIGGER laid beside the leads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bci_stream.packet import Packet, Triggers
from replay.program import Program
from replay.source import RawPacket, Session


@dataclass(frozen=True)
class Shown:
    """A packet as a decoder may see it; truth that became known with it; a live device's stamp."""

    session: int
    packet: Packet
    truth: tuple[dict[str, Any], ...]
    stamp: float | None


def shown_packets(program: Program) -> Iterator[Shown]:
    """The whole program, packet by packet; `finish` is set on the very last one."""
    for number, session in enumerate(program.sessions):
        last_session = number == len(program.sessions) - 1
        yield from _session_packets(program, number, session, last_session)


def _session_packets(
    program: Program, number: int, session: Session, last_session: bool
) -> Iterator[Shown]:
    mask = program.track.mask(session.rate) if program.track else None
    live_truth = program.track is not None and program.truths[number] is None
    reader = program.track.truth(session.rate) if live_truth and program.track else None
    for raw, is_last in _with_last(session.packets(program.packet_samples)):
        truth = (
            ()
            if reader is None
            else reader.step(raw.block, raw.start, len(raw.samples), raw.triggers)
        )
        leads, triggers = raw.samples, raw.triggers
        if mask is not None:
            leads, triggers = mask.step(leads, triggers)
        samples = np.empty((len(leads), leads.shape[1] + 1), dtype=np.float32)
        samples[:, :-1] = leads
        samples[:, -1] = _trigger_column(len(leads), triggers)
        packet = Packet(
            samples, triggers, raw.start, raw.block, session.subject, is_last and last_session
        )
        yield Shown(number, packet, tuple(truth), raw.stamp)


def _trigger_column(n: int, triggers: Triggers) -> np.ndarray[Any, np.dtype[np.float32]]:
    """One code a sample; where several share one, the last stands here, and all in the packet's note."""
    column = np.zeros(n, dtype=np.float32)
    for offset, code in triggers:
        column[offset] = code
    return column


def _with_last(packets: Iterator[RawPacket]) -> Iterator[tuple[RawPacket, bool]]:
    """Each packet, and whether it is the last: known only by looking one ahead.

    A live device's packets are handed on at once; its session ends when the device is stopped.
    """
    previous: RawPacket | None = None
    for packet in packets:
        if packet.stamp is not None:
            yield packet, False
            continue
        if previous is not None:
            yield previous, False
        previous = packet
    if previous is not None:
        yield previous, True
