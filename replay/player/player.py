"""The player: opens the streams of a plan, does the handshake, plays, and stays until all is received."""

import logging
import math
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from bci_stream.clock import Clock
from bci_stream.contest.contest import Contest
from bci_stream.contest.refusals import TokenRefusals
from bci_stream.contest.start import Pace, parse_pace
from bci_stream.errors import BciError, SourceError, WireError
from bci_stream.wire.groups import StreamLimits
from bci_stream.wire.messages import Offer, Status, Stopped
from bci_stream.wire.transport import Transport
from bci_stream.wire.verify import MessageVerifier
from replay.player.handshake import HandshakeServer, StartOn
from replay.player.inlets import ReplayInlets
from replay.player.journal import PlaybackProgress, RunJournal
from replay.player.lockstep import Lockstep
from replay.player.outlets import ReplayOutlets
from replay.player.plan import PlaybackPlan
from replay.player.realtime import Realtime
from replay.player.repeats import BlockRepeater
from replay.player.teams import TeamRegistry

__all__ = ["Pace", "Player", "check_confidential", "check_live_pace", "parse_pace"]

logger = logging.getLogger(__name__)

TEAMS_S = 60.0
"""How long the streams stay open after the last packet for teams that are still at work."""

LISTENERS_S, STOPPED_LISTENERS_S, LISTENERS_POLL_S = 1.0, 0.2, 0.05
"""How long they stay open for other listeners (normally, after a stop), and the polling interval."""

MAX_LISTENERS_S = 10.0
"""The longest time for a replay that was fast or late, whose listeners may be behind too."""


def check_live_pace(uri: str, pace: Pace) -> None:
    """Raise SourceError unless the pace is real time: a live device sets the pace itself."""
    if pace != Pace(lockstep=False):
        raise SourceError(
            f"--pace {pace}: {uri} is a live device, which can neither wait nor run faster or slower "
            "than time; leave --pace away"
        )


def check_confidential(contest: Contest, plan: PlaybackPlan, pace: Pace) -> None:
    """Raise SourceError where a contest with sealed results would send what one team must not read.

    LSL streams are readable by everyone. In real time each team's chosen leads would be, so that a team
    could read all leads from the others' streams; in lockstep a replay has one team.
    """
    if contest.sealed and plan.track and plan.track.choose_leads and not pace.lockstep:
        raise SourceError(
            f"track {plan.track.name!r} in real time: each team chooses {plan.track.choose_leads} leads, "
            "and everyone on the network could read the other teams' too; play it in lockstep "
            '(--pace lockstep), or set results = "signed" in the contest file for an open contest'
        )


@contextmanager
def batch_scheduled_threads() -> Iterator[None]:
    """Threads that are started meanwhile, and those that they start, get SCHED_BATCH; the caller does not.

    Such threads do not preempt the playing thread. Only Linux has them. A process that was given a policy
    of its own (`chrt`), or that may not change it (a container's system call filter), keeps what it has.
    """
    changed = sys.platform == "linux" and _change_policy(os.SCHED_OTHER, os.SCHED_BATCH)
    try:
        yield
    finally:
        if changed:
            _change_policy(os.SCHED_BATCH, os.SCHED_OTHER)


def _change_policy(old: int, new: int) -> bool:
    """Change the calling thread's policy; False where it has another one, or where it is not allowed."""
    try:
        if os.sched_getscheduler(0) != old:
            return False
        os.sched_setscheduler(0, new, os.sched_param(0))
    except OSError:
        return False
    return True


class Player:
    """Plays one plan, once or (endless) until it is stopped. `paused` holds real-time packets back.

    The thread that calls `play` owns everything in here. Other threads may read `progress`, set or clear
    `paused` and `stop`, and call `announce`.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        contest: Contest,
        plan: PlaybackPlan,
        *,
        name: str,
        pace: Pace,
        start_on: StartOn,
        stop: threading.Event,
        team: str = "",
        endless: bool = False,
        wait_s: float | None = None,
    ) -> None:
        check_confidential(contest, plan, pace)
        self._clock = clock
        self._plan = plan
        self._pace = pace
        self._start_on = start_on
        self._for_teams = start_on in ("judge", "team")
        self._endless = endless
        self._stop = stop
        self._wait_s = contest.limits.join_s if wait_s is None else wait_s
        self._outage_s = contest.limits.outage_s
        self.paused = threading.Event()
        run = secrets.token_hex(8)
        # Where teams measure their latency, or a device sets the pace, LSL's threads must not wait.
        urgent = plan.live or self._for_teams
        with nullcontext() if urgent else batch_scheduled_threads():
            self._outlets = ReplayOutlets(
                transport, contest.name, name, run, contest.keys, plan, pace.speed
            )
        self._journal = RunJournal(self._outlets, plan, judged=self._for_teams)
        track = plan.track
        choose = track.choose_leads if track else None
        offer = Offer(
            contest=contest.name,
            run=run,
            track=plan.track_name,
            pace=str(pace),
            rate=plan.rate,
            packet_samples=plan.packet_samples,
            leads=[lead.name for lead in plan.leads],
            subjects=[session.subject for session in plan.sessions],
            choose=choose,
            results=contest.results,
            name=name,
            control_uid=self._outlets.control_uid,
        )
        verifier = MessageVerifier(contest.name, {run}, contest.token, sealed=contest.sealed)
        self._inlets = ReplayInlets(
            transport,
            contest.name,
            run,
            contest.keys.public_key(),
            verifier,
            lockstep=pace.lockstep,
            limits=StreamLimits.of_team(
                offer, contest.limits.reports_a_packet, contest.limits.message_mb_a_minute
            ),
        )
        teams = TeamRegistry(
            offer,
            contest.token,
            self._outlets,
            self._inlets.is_live,
            self._position,
            track.check_leads if track and choose else None,
            only=team,
            takes=lambda name: contest.takes(name, plan.track_name),
        )
        self._handshake = HandshakeServer(
            offer,
            self._inlets,
            self._outlets,
            teams,
            self._journal,
            transport.now,
            contest.limits.return_s,
            TokenRefusals(contest),
            judge_decides=contest.start_policy(plan.track_name).kind != "ready",
        )

    @property
    def progress(self) -> PlaybackProgress:
        return self._journal.progress

    @property
    def clocks(self) -> dict[str, dict[str, Any]]:
        """Clock offsets of the judge's and the teams' hosts; any thread may read them."""
        return self._inlets.clocks

    def _position(self) -> int:
        """Lockstep: number of the next packet once the run has begun; else -1."""
        has_begun = self._pace.lockstep and self._journal.session_start is not None
        return self._journal.next_packet if has_begun else -1

    def play(self) -> None:
        """Wait for the handshake, play, and stay until everyone has what was sent."""
        try:
            if self._start_on != "now":
                logger.info("waiting for %s", self._start_on)
            if self._handshake.wait(self._start_on, self._wait_s, self._stop):
                if not self._for_teams:
                    self._inlets.close()  # searching for streams costs more than playing them
                self._journal.send_known_truth()
                self.progress.state = "playing"
                self._make_run().play()
                if self._for_teams and not self._stop.is_set():
                    self._wait_for_teams()
                else:
                    self._drain_listeners()
            self.progress.state = "stopped" if self._stop.is_set() else "finished"
        except BciError as error:
            self._outlets.send(Stopped(self._public_reason(error)))
            self._drain_listeners()
            raise
        finally:
            self._inlets.close()
            self._outlets.close()

    def announce(self, state: str, detail: str) -> None:
        """Send a source's status to everyone; any thread may call this. A repetition is not sent."""
        self._handshake.post(Status(state, detail))

    def _public_reason(self, error: BciError) -> str:
        """Why the run failed. Where labels are masked, a source's message is withheld: it may quote one."""
        if self._plan.track is None or isinstance(error, WireError):
            return str(error)
        return "its source failed; the replay's own log and status have the reason"

    def _make_run(self) -> Lockstep | Realtime:
        streams = (self._outlets, self._handshake, self._journal)
        parts = (*streams, self._plan, self._clock, self._wait_s, self._stop)
        repeats = BlockRepeater(
            self._plan,
            self._journal,
            lambda: self._handshake.blocks_again,
            stop=None if self._pace.lockstep else self._stop,
            report=lambda text: self._outlets.send(Status("block", text)),
        )
        if self._pace.lockstep:
            return Lockstep(*parts, repeats=repeats, outage_s=self._outage_s)
        return Realtime(
            *parts,
            repeats=repeats,
            speed=self._pace.speed,
            endless=self._endless,
            for_teams=self._for_teams,
            paused=self.paused,
            outage_s=self._outage_s if not self._plan.live else math.inf,
        )

    def _drain_listeners(self) -> None:
        """Stay a moment for listeners, because LSL does not say whether they have received everything.

        An inlet that does not recover drops what it has not handed out when its stream ends. A listener of a
        replay at 40 times its rate, on a busy computer, is seconds behind.
        """
        begun = now = self._clock.now()
        stay_s = LISTENERS_S * max(1.0, self._pace.speed) + self.progress.worst_late_s
        stay_s = min(stay_s, MAX_LISTENERS_S)
        while now - begun < (STOPPED_LISTENERS_S if self._stop.is_set() else stay_s):
            if not self._outlets.has_consumers():
                return
            self._clock.wait_until(now + LISTENERS_POLL_S)
            now = self._clock.now()

    def _wait_for_teams(self) -> None:
        """Stay while teams are still at work: an outlet that closes drops what it holds."""
        begun = self._clock.now()
        while not self._stop.is_set() and self._clock.now() - begun < TEAMS_S:
            self._handshake.poll(0.05)
            if self._journal.unsent_events and self._pace.lockstep:
                self._journal.send_events()
            if self._handshake.everyone_has_all(judged=self._start_on == "judge"):
                if self._handshake.is_closed_early:
                    self._drain_listeners()  # a team whose run was closed reads why
                return
            self._outlets.send_alive()
            self._stop.wait(0.01)
