"""The player puts a program onto the wire at its pace.

In lockstep a packet leaves when its team asks for it. In real time it leaves at its own deadline,
t0 + samples / rate, however late the one before it was: lateness never adds up.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bci_stream.clock import Clock
from bci_stream.contest.contest import Contest
from bci_stream.errors import BciError, NotFoundError
from bci_stream.packet import Packet
from bci_stream.wire.ear import Ear
from bci_stream.wire.messages import (
    Next,
    Offer,
    PacketNote,
    Session,
    Status,
    Stopped,
)
from bci_stream.wire.transport import Transport
from replay.ahead import ahead
from replay.lobby import Lobby
from replay.masked import Shown, shown_packets
from replay.pace import Pace
from replay.program import Program
from replay.reception import Reception, StartOn
from replay.stage import Stage
from tracks.ecog import check_channels

LEAD_IN_S = 0.25
"""Between the go and the first deadline, so that the first packet is not late."""

ALIVE_EVERY_S = 1.0
LINGER_S = 60.0
"""How long the streams stay open after the last packet for teams that are still at work."""

DOOR_S = 0.02
"""How often a real-time replay looks who is at its door, and whether the judge is still there."""

LEARN = 0.05
MOST_LEAD_S = 0.0001

LATE_S = 0.25
"""A packet that leaves later than this is a stall, and is reported."""


@dataclass
class Progress:
    """Where a replay stands; read by status displays, written by the player alone."""

    state: str = "waiting"
    played: int = 0
    total: int | None = None
    packets: int = 0
    late_s: float = 0.0
    worst_late_s: float = 0.0
    teams: tuple[str, ...] = ()
    subject: str = ""


class Player:
    """Plays one program once. `paused` holds real-time packets back while it is set."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        contest: Contest,
        program: Program,
        *,
        name: str,
        pace: Pace,
        start_on: StartOn,
        stop: threading.Event,
        team: str = "",
        wait_s: float | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._contest = contest
        self._program = program
        self._pace = pace
        self._start_on = start_on
        self._stop = stop
        self._wait_s = contest.limits.join_s if wait_s is None else wait_s
        self._say = say
        self.paused = threading.Event()
        self.progress = Progress(total=program.n_samples)
        run = secrets.token_hex(8)
        key = contest.keys.contest_key()
        self._stage = Stage(transport, contest.name, name, run, key, program, pace.speed)
        self._reception = self._open_reception(transport, run, key, team)
        self._for_teams = start_on in ("judge", "team")
        self._session = -1
        self._session_said: Session | None = None
        self._index = 0
        self._told: list[tuple[PacketNote, float]] = []
        self._truth_told: list[tuple[int, int, dict[str, Any]]] = []

    def _open_reception(self, transport: Transport, run: str, key: bytes, team: str) -> Reception:
        program, track = self._program, self._program.track
        choose = track.choose_leads if track else None
        offer = Offer(
            contest=self._contest.name,
            run=run,
            track=program.track_name,
            pace=str(self._pace),
            rate=program.rate,
            packet_samples=program.packet_samples,
            leads=[lead.name for lead in program.leads],
            subjects=[session.subject for session in program.sessions],
            choose=choose,
        )
        lobby = Lobby(
            offer,
            Ear(self._contest.name, run, self._contest.token),
            self._contest.token,
            self._stage.signal_for,
            check_channels if choose else None,
            one_team=self._pace.lockstep,
            only=team,
        )
        return Reception(
            transport,
            offer,
            self._stage,
            lobby,
            key,
            self._retell,
            lambda: self._session_said,
        )

    def play(self) -> None:
        """Wait for whoever is expected, play, and stay until everyone has what was sent."""
        try:
            self._say(f"waiting for {self._start_on}")
            if self._reception.wait(self._start_on, self._wait_s, self._stop):
                if not self._for_teams:
                    self._reception.close()  # looking for streams costs more than playing them
                self._announce()
                self.progress.state = "playing"
                if self._pace.lockstep:
                    self._play_lockstep()
                else:
                    self._play_realtime()
                if self._for_teams:
                    self._linger()
            self.progress.state = "stopped" if self._stop.is_set() else "finished"
        except BciError as error:
            self._stage.say(Stopped(str(error)))
            raise
        finally:
            self._reception.close()
            self._stage.close()

    def announce(self, state: str, detail: str) -> None:
        """Something about the source that everyone should know."""
        self._stage.say(Status(state, detail))

    # --- before the first packet --------------------------------------------------------------

    def _announce(self) -> None:
        """All truth that is known beforehand, so that a run that ends early is still scored whole."""
        for number, truth in enumerate(self._program.truths):
            self._stage.tell_truth(number, 0, None, self._leads_sent())
            if truth is not None:
                self._stage.tell_truth(number, 0, truth, self._leads_sent())
        self._stage.truth_is_told()

    def _retell(self, packet: int) -> None:
        """All that a judge missed that was started again; it alone can read it."""
        if not self._told:
            return
        self._announce()
        for session, before, event in self._truth_told:
            self._stage.tell_truth(session, before, event, self._leads_sent())
        for note, stamp in self._told[packet:]:
            self._stage.retell(note, stamp)
        self._stage.all_retold(self._reception.judge_gone_at or self._clock.now())

    def _leads_sent(self) -> int:
        track = self._program.track
        return (track.choose_leads if track else None) or len(self._program.leads)

    # --- packets ------------------------------------------------------------------------------

    def _note(self, shown: Shown) -> PacketNote:
        packet = shown.packet
        return PacketNote(
            self._index,
            shown.session,
            packet.block,
            packet.start,
            packet.n,
            list(packet.triggers),
            packet.finish,
        )

    def _tell_truth(self, shown: Shown) -> None:
        for trouble in shown.trouble:
            self.announce(
                "truth", "a labelled trigger did not fit (a gap?): its trial is not scored"
            )
            self._say(trouble)
        for event in shown.truth:
            self._truth_told.append((shown.session, self._index, event))
            self._stage.tell_truth(shown.session, self._index, event, self._leads_sent())

    def _show(self, note: PacketNote, packet: Packet, stamp: float) -> float:
        """Put a packet onto the wire; returns when its samples left."""
        left_at = self._stage.show(note, packet, stamp)
        self._told.append((note, stamp))
        self._index += 1
        self.progress.packets = self._index
        self.progress.played += packet.n
        return left_at

    def _begin_session(self, number: int) -> None:
        session = self._program.sessions[number]
        self._session = number
        self.progress.subject = session.subject
        names = [lead.name for lead in session.leads]
        samples = self._program.packet_samples
        self._session_said = Session(number, session.subject, session.rate, samples, names)
        self._stage.say(self._session_said)

    def _play_lockstep(self) -> None:
        stamp = self._clock.now()
        self._begin_session(0)
        for shown in shown_packets(self._program):
            if not self._asked():
                return
            if shown.session != self._session:
                self._begin_session(shown.session)
            stamp += shown.packet.n / self._program.rate
            self._tell_truth(shown)
            self._show(self._note(shown), shown.packet, stamp)

    def _asked(self) -> bool:
        """Wait for the team to ask for the next packet; False where nobody will ask any more."""
        checked = said = self._clock.now()
        asked = False
        while not self._stop.is_set():
            for message in self._reception.attend_teams(0.0 if asked else 0.25):
                asked = asked or (isinstance(message, Next) and message.packet == self._index)
            if asked and not self._reception.judge_is_away:
                return True
            now = self._clock.now()
            if asked:
                self._stop.wait(0.02)
                self._give_up_on_judge(now)
            if now - checked > 0.2:
                checked = now
                self._reception.attend()
                if self._everyone_left():
                    return False
            if now - said > ALIVE_EVERY_S:
                said = now
                self._stage.say(Status("alive"))
        self._stage.say(Stopped("the replay was stopped"))
        return False

    def _give_up_on_judge(self, now: float) -> None:
        if now - self._reception.judge_gone_at > self._wait_s:
            raise NotFoundError(
                f"the judge went away and none came back for {self._wait_s:g} s; start `bci-judge live` "
                "again while the replay waits, and it goes on where it was"
            )

    def _play_realtime(self) -> None:
        door = threading.Thread(target=self._keep_door, name="door", daemon=True)
        over = threading.Event()
        self._over = over
        door.start()
        try:
            self._pace_packets()
        finally:
            over.set()
            door.join()

    def _pace_packets(self) -> None:
        rate = self._program.rate * self._pace.speed
        origin = self._clock.now() + LEAD_IN_S
        sent = 0
        lead_s = 0.0
        self._begin_session(0)
        packets = shown_packets(self._program)
        if not self._program.live:
            packets = ahead(packets, self._stop)
        for shown in packets:
            origin += self._held_back()
            if shown.session != self._session:
                self._begin_session(shown.session)
            sent += shown.packet.n
            deadline = shown.stamp if shown.stamp is not None else origin + sent / rate
            self._tell_truth(shown)
            note = self._note(shown)  # all that can be done before the deadline is
            if shown.stamp is None and not self._clock.wait_until(deadline - lead_s, self._stop):
                break
            left_at = self._show(note, shown.packet, deadline)
            lead_s = _adjusted(lead_s, left_at - deadline)
            self._note_lateness(left_at - deadline)
            if self._stop.is_set():
                break
        if self._stop.is_set():
            self._stage.say(Stopped("the replay was stopped"))

    def _held_back(self) -> float:
        """How long a pause lasted; deadlines move by as much."""
        if not (self.paused.is_set() or self._reception.judge_is_away):
            return 0.0
        begun = self._clock.now()
        self.progress.state = "paused"
        self._stage.say(Status("paused"))
        while self.paused.is_set() or self._reception.judge_is_away:
            if self._stop.wait(0.02):
                break
            if self._reception.judge_is_away:
                self._give_up_on_judge(self._clock.now())
        self.progress.state = "playing"
        self._stage.say(Status("resumed"))
        return self._clock.now() - begun

    def _note_lateness(self, late_s: float) -> None:
        stalled = late_s > max(LATE_S, self.progress.late_s) and not self._program.live
        self.progress.late_s = late_s
        self.progress.worst_late_s = max(self.progress.worst_late_s, late_s)
        if stalled:
            self._say(f"stalled: a packet leaves {late_s:.2f} s late; none is dropped")
            self._stage.say(Status("late", f"{late_s:.3f} s"))

    def _keep_door(self) -> None:
        """Real time: let in who comes late, and say once a second that the replay is alive."""
        said = self._clock.now()
        while not self._over.wait(DOOR_S if self._for_teams else ALIVE_EVERY_S):
            if self._for_teams:
                self._reception.attend()
                self.progress.teams = tuple(self._reception.lobby.guests)
            if self._clock.now() - said > ALIVE_EVERY_S:
                said = self._clock.now()
                self._stage.say(Status("alive"))

    # --- after the last packet ----------------------------------------------------------------

    def _everyone_left(self) -> bool:
        gone = self._reception.gone() | self._reception.closed
        guests = self._reception.lobby.guests.values()
        return bool(guests) and all(guest.name in gone for guest in guests)

    def _linger(self) -> None:
        """Stay while teams are still at work: an outlet that closes takes what it holds with it."""
        begun = said = self._clock.now()
        while not self._stop.is_set() and self._clock.now() - begun < LINGER_S:
            self._reception.attend(0.05)
            guests = self._reception.lobby.guests.values()
            done = self._reception.gone() | self._reception.closed
            done |= {guest.name for guest in guests if guest.done and self._start_on != "judge"}
            if all(guest.name in done for guest in guests):
                return
            if self._clock.now() - said > ALIVE_EVERY_S:
                said = self._clock.now()
                self._stage.say(Status("alive"))
            self._stop.wait(0.01)


def _adjusted(lead_s: float, late_s: float) -> float:
    """How much before a deadline to wake: from the wake to the push it takes some 20 us, learned slowly."""
    return min(max(lead_s + LEARN * min(late_s, MOST_LEAD_S), 0.0), MOST_LEAD_S)
