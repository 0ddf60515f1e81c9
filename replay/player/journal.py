"""The telling: all that one run has said so far, kept so that a judge started anew can be told again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bci_stream.packet import Packet
from bci_stream.wire.messages import PacketEvent, PacketNote, SessionStart, Status, TeamMessageEvent
from replay.player.outlets import ReplayOutlets, Wait, no_wait
from replay.player.plan import PlaybackPlan
from replay.transform.masking import MaskedPacket


@dataclass
class PlaybackProgress:
    """Where a replay stands; read by status displays, written by the player alone.

    heard: whether anybody at all has opened its signal; LSL does not tell who, or how many.
    round: how often all of it was played before; played counts within it.
    """

    state: str = "waiting"
    played: int = 0
    total: int | None = None
    packets: int = 0
    late_s: float = 0.0
    worst_late_s: float = 0.0
    teams: tuple[str, ...] = ()
    heard: bool = False
    subject: str = ""
    round: int = 0


class RunJournal:
    """Sessions, truth and packets, in the order in which they are told. team: whose lockstep run it is.

    judged: a judge may have to be told again; else what was sent is not remembered, and may go on for days.
    """

    def __init__(
        self,
        stage: ReplayOutlets,
        program: PlaybackPlan,
        say: Callable[[str], None],
        judged: bool = True,
    ) -> None:
        self._stage = stage
        self._program = program
        self._say = say
        self._events: list[PacketEvent | TeamMessageEvent] = []
        self._judged = judged
        self._told_to_judge = 0
        self.team = ""
        self._truth: list[tuple[int, int, dict[str, Any]]] = []
        self._session = (0, -1)
        self.session_said: SessionStart | None = None
        self.progress = PlaybackProgress(total=program.n_samples)

    @property
    def next_packet(self) -> int:
        return self.progress.packets

    @property
    def behind(self) -> int:
        """How many events the judge has not been told of by `tell_judge`."""
        return len(self._events) - self._told_to_judge

    # --- sessions and truth -------------------------------------------------------------------

    def tell_beforehand(self) -> None:
        """All truth that is known beforehand, so that a run that ends early is still scored whole."""
        for number, truth in enumerate(self._program.truths):
            self._stage.tell_truth(number, 0, None, self._leads_sent())
            if truth is not None:
                self._stage.tell_truth(number, 0, truth, self._leads_sent())
        self._stage.truth_is_told()

    def _leads_sent(self) -> int:
        track = self._program.track
        return (track.choose_leads if track else None) or len(self._program.leads)

    def begin_session(self, number: int, round_number: int = 0) -> None:
        """Say which subject it is, unless that has been said."""
        if (round_number, number) == self._session:
            return
        session = self._program.sessions[number]
        self._session = (round_number, number)
        if round_number != self.progress.round:
            self.progress.round, self.progress.played = round_number, 0
        self.progress.subject = session.subject
        names = [lead.name for lead in session.leads]
        samples = self._program.packet_samples
        self.session_said = SessionStart(number, session.subject, session.rate, samples, names)
        self._stage.say(self.session_said)

    def tell_truth(self, shown: MaskedPacket) -> None:
        """What became known with this packet, before the packet itself."""
        for trouble in shown.truth_errors:
            said = "a labelled trigger did not fit (a gap?): its trial is not scored"
            self._stage.say(Status("truth", said))
            self._say(trouble)
        if self._program.live and self._program.track and not shown.truth:
            self._stage.probe_truth()  # or else the truth stream would show when a trial ends
        for event in shown.truth:
            self._truth.append((shown.session, self.next_packet, event))
            self._stage.tell_truth(shown.session, self.next_packet, event, self._leads_sent())

    # --- packets ------------------------------------------------------------------------------

    def note(self, shown: MaskedPacket) -> PacketNote:
        it = shown
        triggers = list(it.triggers)
        return PacketNote(
            self.next_packet, it.session, it.block, it.start, it.n, triggers, it.finish
        )

    def show(
        self,
        note: PacketNote,
        packet: Packet,
        stamp: float,
        wait: Wait = no_wait,
        *,
        noted: bool = True,
    ) -> float | None:
        """Put a packet onto the wire, with its note unless it was announced as plain.

        wait: for its moment; where it says False, nothing is told. Returns when its samples left.
        """
        left_at = self._stage.show(note if noted else None, packet, stamp, wait)
        if left_at is None:
            return None
        if self._judged:
            self._events.append(PacketEvent(note, stamp, left_at))
        self.progress.packets += 1
        self.progress.played += packet.n
        return left_at

    def heard(self, text: str, at: float) -> None:
        """Lockstep: the team said this, after all packets that it has asked for."""
        self._events.append(TeamMessageEvent(text, at))

    def tell_judge(self) -> None:
        """Tell the judge of all that happened since it was told last."""
        news = self._events[self._told_to_judge :]
        self._stage.tell_judge(self.team, self._told_to_judge, news)
        self._told_to_judge = len(self._events)

    def retell(self, gone_at: float) -> None:
        """All that a judge missed that was started again; it alone can read it."""
        if not self._events:
            return
        self.tell_beforehand()
        for session, before, event in self._truth:
            self._stage.tell_truth(session, before, event, self._leads_sent())
        self._told_to_judge = 0
        self.tell_judge()
        self._stage.all_retold(gone_at)
