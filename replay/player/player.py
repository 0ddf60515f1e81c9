"""The player puts a program onto the wire: it waits for whoever is expected, plays at its pace, and stays
until everyone has what was sent."""

import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from bci_stream.clock import Clock
from bci_stream.contest.contest import Contest
from bci_stream.errors import BciError, SourceError, WireError
from bci_stream.wire.messages import Offer, Status, Stopped
from bci_stream.wire.transport import Transport
from bci_stream.wire.verify import MessageVerifier
from replay.player.handshake import HandshakeServer, StartOn
from replay.player.journal import PlaybackProgress, RunJournal
from replay.player.lockstep import Lockstep
from replay.player.outlets import ReplayOutlets
from replay.player.plan import PlaybackPlan
from replay.player.realtime import Realtime
from replay.player.teams import TeamRegistry


@dataclass(frozen=True)
class Pace:
    """speed: how many times faster than life; lockstep has no speed of its own."""

    lockstep: bool
    speed: float = 1.0

    def __str__(self) -> str:
        if self.lockstep:
            return "lockstep"
        return "realtime" if self.speed == 1.0 else f"{self.speed:g}"


def parse_pace(text: str) -> Pace:
    if text == "lockstep":
        return Pace(lockstep=True)
    try:
        speed = 1.0 if text == "realtime" else float(text)
    except ValueError:
        speed = 0.0
    if not 0.0 < speed < 1e6:
        raise SourceError(f"pace {text!r}: 'lockstep', 'realtime' or a factor like 2.0 is expected")
    return Pace(lockstep=False, speed=speed)


def check_live_pace(uri: str, pace: Pace) -> None:
    """A live device sets the pace itself: it can neither wait for a team nor run faster than time."""
    if pace != Pace(lockstep=False):
        raise SourceError(
            f"--pace {pace}: {uri} is a live device, which can neither wait nor run faster or slower "
            "than time; leave --pace away"
        )


@contextmanager
def batch_scheduled_threads() -> Iterator[None]:
    """Threads started meanwhile are patient, and so are those that they start; the caller is not.

    Only Linux knows such threads. A process that was given a policy of its own (`chrt`) keeps it, and so
    does one that may not change it (a container's filter of system calls): they are as they were.
    """
    patient = sys.platform == "linux" and _change_policy(os.SCHED_OTHER, os.SCHED_BATCH)
    try:
        yield
    finally:
        if patient:
            _change_policy(os.SCHED_BATCH, os.SCHED_OTHER)


def _change_policy(old: int, new: int) -> bool:
    """Of the calling thread; False where it had another one, or may not."""
    try:
        if os.sched_getscheduler(0) != old:
            return False
        os.sched_setscheduler(0, new, os.sched_param(0))
    except OSError:
        return False
    return True


LINGER_S = 60.0
"""How long the streams stay open after the last packet for teams that are still at work."""

SEE_OFF_S, HURRIED_S, SEE_OFF_LOOK_S = 1.0, 0.2, 0.05
"""How long they stay open for anybody else who listens, also where the run was stopped, and how often it is
looked whether anybody does."""


class Player:
    """Plays one program, once or (endless) until it is stopped. `paused` holds real-time packets back."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        contest: Contest,
        program: PlaybackPlan,
        *,
        name: str,
        pace: Pace,
        start_on: StartOn,
        stop: threading.Event,
        team: str = "",
        endless: bool = False,
        wait_s: float | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._contest = contest
        self._program = program
        self._pace = pace
        self._start_on = start_on
        self._for_teams = start_on in ("judge", "team")
        self._endless = endless
        self._stop = stop
        self._wait_s = contest.limits.join_s if wait_s is None else wait_s
        self._say = say
        self._announced: Status | None = None
        self.paused = threading.Event()
        run = secrets.token_hex(8)
        key = contest.keys.contest_key()
        hurried = program.live or self._for_teams
        with nullcontext() if hurried else batch_scheduled_threads():
            self._stage = ReplayOutlets(
                transport, contest.name, name, run, key, program, pace.speed
            )
        self._telling = RunJournal(self._stage, program, say, judged=self._for_teams)
        self._reception = self._open_reception(transport, run, key, team)

    @property
    def progress(self) -> PlaybackProgress:
        return self._telling.progress

    def _open_reception(
        self, transport: Transport, run: str, key: bytes, team: str
    ) -> HandshakeServer:
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
        lobby = TeamRegistry(
            offer,
            MessageVerifier(self._contest.name, {run}, self._contest.token),
            self._contest.token,
            self._stage.signal_for,
            track.check_leads if track and choose else None,
            one_team=self._pace.lockstep,
            only=team,
        )
        return HandshakeServer(transport, offer, self._stage, lobby, key, self._telling)

    def play(self) -> None:
        """Wait for whoever is expected, play, and stay until everyone has what was sent."""
        try:
            if self._start_on != "now":
                self._say(f"waiting for {self._start_on}")
            if self._reception.wait(self._start_on, self._wait_s, self._stop):
                if not self._for_teams:
                    self._reception.close()  # looking for streams costs more than playing them
                self._telling.tell_beforehand()
                self.progress.state = "playing"
                self._performance().play()
                if self._for_teams and not self._stop.is_set():
                    self._linger()
                else:
                    self._see_off()
            self.progress.state = "stopped" if self._stop.is_set() else "finished"
        except BciError as error:
            self._stage.say(Stopped(self._public(error)))
            self._see_off()
            raise
        finally:
            self._reception.close()
            self._stage.close()

    def announce(self, state: str, detail: str) -> None:
        """Something about the source that everyone should know; said once, however often it is told."""
        news = Status(state, detail)
        if news != self._announced:
            self._announced = news
            self._stage.say(news)

    def _public(self, error: BciError) -> str:
        """Where labels are masked, a source's own words are not for everyone: they may quote a trigger."""
        if self._program.track is None or isinstance(error, WireError):
            return str(error)
        return "its source failed; why is said in the replay's own terminal and status"

    def _performance(self) -> Lockstep | Realtime:
        parts = (self._stage, self._reception, self._telling, self._program, self._clock)
        if self._pace.lockstep:
            return Lockstep(*parts, wait_s=self._wait_s, stop=self._stop)
        return Realtime(
            *parts,
            speed=self._pace.speed,
            endless=self._endless,
            for_teams=self._for_teams,
            wait_s=self._wait_s,
            paused=self.paused,
            stop=self._stop,
            say=self._say,
        )

    def _see_off(self) -> None:
        """Stay a while for those who listen, of whom LSL does not tell what they have.

        An inlet that does not recover forgets what it has not handed out when its stream ends.
        """
        begun = now = self._clock.now()
        while now - begun < (HURRIED_S if self._stop.is_set() else SEE_OFF_S):
            if not self._stage.has_consumers():
                return
            self._clock.wait_until(now + SEE_OFF_LOOK_S)
            now = self._clock.now()

    def _linger(self) -> None:
        """Stay while teams are still at work: an outlet that closes takes what it holds with it."""
        begun = self._clock.now()
        while not self._stop.is_set() and self._clock.now() - begun < LINGER_S:
            self._reception.attend(0.05)
            if self._telling.behind and self._pace.lockstep:
                self._telling.tell_judge()
            if self._reception.everyone_has_all(judged=self._start_on == "judge"):
                return
            self._stage.say_alive()
            self._stop.wait(0.01)
