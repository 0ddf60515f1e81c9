"""The journal of a run: what was sent so far, kept so that a restarted judge can be brought up to date."""

import logging
from dataclasses import dataclass
from typing import Any

from bci_stream.wire.messages import (
    JournalEvent,
    PacketEvent,
    PacketNote,
    SessionStart,
    StallEvent,
    Status,
    TeamMessageEvent,
)
from replay.player.outlets import ReplayOutlets, Wait, no_wait
from replay.player.plan import PlaybackPlan
from replay.transform.masking import MaskedPacket

logger = logging.getLogger(__name__)


@dataclass
class PlaybackProgress:
    """How far a replay is. The playing thread writes it; the state file and the progress line read it.

    heard: whether anybody has opened the signal stream; LSL does not say who, or how many.
    round: how often everything was played before; `played` counts the samples within this round.
    jitter_s: how much a packet's lateness differs from that of the packet before, smoothed as in RFC 3550.
    """

    state: str = "waiting"
    played: int = 0
    total: int | None = None
    packets: int = 0
    late_s: float = 0.0
    worst_late_s: float = 0.0
    jitter_s: float = 0.0
    teams: tuple[str, ...] = ()
    heard: bool = False
    subject: str = ""
    round: int = 0


class RunJournal:
    """Sends sessions, truth and packets, and records them in this order. It belongs to the playing thread.

    judged: whether a judge may ask for the history. Without one no events are kept, because a replay to
    anybody may run for days. team: in lockstep, whose run this is.
    """

    def __init__(self, outlets: ReplayOutlets, plan: PlaybackPlan, *, judged: bool = True) -> None:
        self._outlets = outlets
        self._plan = plan
        self._judged = judged
        self._events: list[JournalEvent] = []
        self._events_sent = 0
        self._truth: list[tuple[int, int, dict[str, Any]]] = []
        self._session = (0, -1)
        self.team = ""
        self.session_start: SessionStart | None = None
        self.progress = PlaybackProgress(total=plan.n_samples)

    @property
    def next_packet(self) -> int:
        """Number of the next packet."""
        return self.progress.packets

    @property
    def unsent_events(self) -> int:
        """How many events `send_events` has not yet sent to the judge."""
        return len(self._events) - self._events_sent

    # --- sessions and truth -------------------------------------------------------------------

    def send_known_truth(self) -> None:
        """Send all truth that is known beforehand, so that a run which ends early can still be scored."""
        for number, truth in enumerate(self._plan.truths):
            self._outlets.send_truth(number, 0, None)
            if truth is not None:
                self._outlets.send_truth(number, 0, truth)
        self._outlets.send_truth_complete()

    def begin_session(self, number: int, round_number: int = 0) -> None:
        """Announce a session, unless it is the present one."""
        if (round_number, number) == self._session:
            return
        session = self._plan.sessions[number]
        self._session = (round_number, number)
        if round_number != self.progress.round:
            self.progress.round, self.progress.played = round_number, 0
        self.progress.subject = session.subject
        names = [lead.name for lead in session.leads]
        self.session_start = SessionStart(
            number, session.subject, session.rate, self._plan.packet_samples, names
        )
        self._outlets.send(self.session_start)

    def send_truth(self, packet: MaskedPacket) -> None:
        """Send what became known with this packet; called before the packet itself is sent."""
        for error in packet.truth_errors:
            detail = "a labelled trigger did not fit (a gap?): its trial is not scored"
            self._outlets.send(Status("truth", detail))
            logger.warning("%s", error)
        if self._plan.live and self._plan.track and not packet.truth:
            self._outlets.probe_truth()  # else the traffic would show when a trial ends
        for event in packet.truth:
            self._truth.append((packet.session, self.next_packet, event))
            self._outlets.send_truth(packet.session, self.next_packet, event)

    def add_samples(self, session: int, n_samples: int) -> None:
        """A session becomes longer, by a block that is played again."""
        self._outlets.added_samples[session] += n_samples
        if self.progress.total is not None:
            self.progress.total += n_samples

    # --- packets ------------------------------------------------------------------------------

    def push_packet(
        self, packet: MaskedPacket, stamp: float, wait: Wait = no_wait, *, with_note: bool = True
    ) -> float | None:
        """Push a packet, and its note unless it was announced as one without a note.

        Returns when its samples left; None where `wait` returned False, and then nothing is recorded.
        """
        note = PacketNote(
            self.next_packet,
            packet.session,
            packet.block,
            packet.start,
            packet.n,
            list(packet.triggers),
            packet.finish,
        )
        left_at = self._outlets.push_packet(packet, note if with_note else None, stamp, wait)
        if left_at is None:
            return None
        if self._judged:
            self._events.append(PacketEvent(note, stamp, left_at))
        self.progress.packets += 1
        self.progress.played += packet.n
        return left_at

    # --- events for the judge -----------------------------------------------------------------

    def record_message(self, text: str, at: float) -> None:
        """Lockstep: record a team's message, in its place among the packets."""
        self._events.append(TeamMessageEvent(text, at))

    def record_stall(self, since: float, at: float) -> None:
        """Record that this process stood still."""
        self._events.append(StallEvent(since, at))

    def send_events(self) -> None:
        """Send the judge all events since the last call."""
        self._outlets.send_events(self.team, self._events_sent, self._events[self._events_sent :])
        self._events_sent = len(self._events)

    def resend(self, gone_at: float) -> None:
        """Send the whole history again, for a judge that was restarted; only a judge can read it."""
        if self.session_start is None:
            return  # the run has not begun: everything is still to be sent
        self.send_known_truth()
        for session, packet, event in self._truth:
            self._outlets.send_truth(session, packet, event)
        self._events_sent = 0
        self.send_events()
        self._outlets.send_history_complete(gone_at)
