"""The handshake: answers teams and judge, and decides when a run may begin and who still takes part."""

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from bci_stream.clock import thread_beside
from bci_stream.contest.refusals import TokenRefusals
from bci_stream.errors import NotFoundError
from bci_stream.wire.handshake import OFFER_EVERY_S
from bci_stream.wire.messages import (
    Closed,
    Done,
    Go,
    Hello,
    Join,
    JudgeMessage,
    JudgeReady,
    Offer,
    PacketRequest,
    Ready,
    Refused,
    ReplayHistory,
    ReportMessage,
    ResultsMessage,
    Status,
)
from replay.player.inlets import FromTeam, JudgeLost, ReplayEvent, ReplayInlets, UnverifiedText
from replay.player.journal import RunJournal
from replay.player.outlets import ReplayOutlets
from replay.player.teams import TeamRegistry
from tracks.common.words import describe

logger = logging.getLogger(__name__)

StartOn = Literal["judge", "team", "consumer", "now"]
"""What the first packet waits for: a judge's go, a team, any consumer of the signal, or nothing."""

STOPPED_BY_OPERATOR = "the operator has ended the run"

POLL_S = 0.005
NETWORK_POLL_S = 0.02
"""How often messages are received before the start, and while packets are played in real time."""

ANSWER_EVERY_S = 0.05
"""How often at most a worker's hello, join and ready are answered: everyone reads the answers."""

JOINING_S = 10.0
"""How long after the judge's go a run waits for a team that has joined and is not ready."""

REORDER_S = 1.0
"""A packet request may overtake earlier messages on another stream by so much."""


@dataclass
class HandshakeServer:
    """State of the handshake. It belongs to the playing thread; other threads may call `post` only.

    The playing thread receives messages itself (`poll`), except while it plays in real time: then
    `polling_thread` posts them, and the playing thread calls `handle_posted` between packets.
    return_s: how long a team whose stream has ended may take to return. refusals: why a team's token is
    refused; None where no answer is sent. judge_decides: the contest's start policy waits for the operator
    or for a time, so that the wait has no limit while a judge is here.
    """

    offer: Offer
    inlets: ReplayInlets
    outlets: ReplayOutlets
    teams: TeamRegistry
    journal: RunJournal
    now: Callable[[], float]
    return_s: float = 0.0
    refusals: TokenRefusals | None = None
    judge_decides: bool = False

    def __post_init__(self) -> None:
        self._posted: queue.SimpleQueue[ReplayEvent] = queue.SimpleQueue()
        self._status: Status | None = None
        self._begun = False
        self._go = False
        self._last_go: Go | None = None
        self._go_since = 0.0
        self._judge_gone_at = 0.0
        self._closed: set[str] = set()
        self._requested: int | None = None  # lockstep: the packet of the last request in a text
        self._answered_at: dict[tuple[str, str], float] = {}

    def wait(self, start_on: StartOn, timeout_s: float, stop: threading.Event) -> bool:
        """Answer until the run may begin. Returns False where it was stopped before that.

        Raises NotFoundError where what it waits for does not come within timeout_s.
        """
        begun = self.now()
        offered = begun - OFFER_EVERY_S
        while not stop.is_set():
            now = self.now()
            if now - offered >= OFFER_EVERY_S:
                self.outlets.send(self.offer)
                offered = now
            self.poll()
            if self._may_begin(start_on):
                self._begun = True
                return True
            if self.judge_decides and self.inlets.judges:
                begun = now
            if now - begun > timeout_s:
                raise NotFoundError(self._missing(start_on, timeout_s))
            stop.wait(POLL_S)
        return False

    # --- receiving ----------------------------------------------------------------------------

    def poll(self, timeout_s: float = 0.0) -> None:
        """Receive and handle all messages; waits up to timeout_s for one of a team."""
        for event in self.inlets.receive(timeout_s):
            self._handle(event)
        self.handle_posted()

    def poll_judge(self) -> None:
        """Receive and handle the judge's messages alone; looks for no new streams."""
        for event in self.inlets.receive_judge():
            self._handle(event)

    def post(self, event: ReplayEvent) -> None:
        """Leave an event for the playing thread; any thread may call this."""
        self._posted.put(event)

    def handle_posted(self) -> None:
        """Handle the events that other threads have posted."""
        while not self._posted.empty():
            self._handle(self._posted.get())

    def polling_thread(self) -> AbstractContextManager[None]:
        """Receive messages on the thread "network" meanwhile; they are posted, not handled."""
        return thread_beside(self._receive_until, "network")

    def _receive_until(self, over: threading.Event) -> None:
        try:
            while not over.wait(NETWORK_POLL_S):
                for event in self.inlets.receive():
                    self.post(event)
        except Exception as error:  # noqa: BLE001 - raised by the playing thread
            self.post(error)

    def requested(self, packet: int, timeout_s: float, *, by_request: bool) -> bool:
        """Lockstep: whether the team requests this packet.

        by_request: look at the stream of packet requests first, which is the usual way between two
        messages; else at the results stream.
        """
        if by_request:
            requests = self.inlets.receive_requests(timeout_s)
            if requests is not None:
                if any(wanted == packet and self._is_next(n) for wanted, n in requests):
                    return True
                timeout_s = 0.0
        if self._requested != packet:  # else `poll` has received it
            self._receive_teams(timeout_s)
        return self._requested == packet

    def _is_next(self, n: int) -> bool:
        """Whether everything that the team sent before message n has arrived; waits a moment for it."""
        (team,) = self.teams.joined.values()
        begun = self.now()
        while team.numbers < n and self.now() - begun < REORDER_S:
            self._receive_teams(POLL_S)
        return team.take_number(n)

    def _receive_teams(self, timeout_s: float) -> None:
        """Handle messages of the teams alone."""
        for event in self.inlets.receive_results(timeout_s):
            self._handle(event)

    # --- handling -----------------------------------------------------------------------------

    def _handle(self, event: ReplayEvent) -> None:
        if isinstance(event, FromTeam):
            self._handle_team(event)
        elif isinstance(event, UnverifiedText):
            self._refuse_token(event)
        elif isinstance(event, JudgeLost):
            if self._go:
                self._go, self._judge_gone_at = False, event.at
        elif isinstance(event, Status):
            if event != self._status:  # a device repeats its status
                self._status = event
                self.outlets.send(event)
        elif isinstance(event, Exception):
            raise event
        else:
            self._handle_judge(event)

    def _handle_team(self, event: FromTeam) -> None:
        """Answer a message of a team, if it is accepted."""
        message = event.message
        if isinstance(message, Hello | Join) and not self._is_due(message, event.uid):
            return
        accepted, answers = self.teams.handle(message, event.uid)
        for answer in answers:
            self.outlets.send(answer)
        if not accepted:
            return
        if isinstance(message, Join) and self.offer.lockstep:
            self._requested = None  # by the worker before this one
            self._expect_requests(message.team)
        if isinstance(message, PacketRequest):
            self._requested = message.packet
        if isinstance(message, Hello | Join) and not self._begun:
            self.outlets.probe_signals()
        begun = self.journal.session_start
        if isinstance(message, Ready) and begun is not None and self._is_due(message, event.uid):
            self.outlets.send(begun)  # for a team that joins late
        if isinstance(message, ReportMessage | Done) and self.offer.lockstep:
            self.journal.record_message(event.text, self.now())

    def _refuse_token(self, event: UnverifiedText) -> None:
        """Tell the worker, by the uid of its stream, why its token is not accepted."""
        if self.refusals is None:
            return
        why = self.refusals.refuse(event.claimed, event.uid, self.now())
        if why is not None:
            logger.warning("%s", describe(why))
            self.outlets.send(Refused(self.offer.run, "", describe(why), worker=event.uid))
            # The team's worker ends now, maybe before the judge has opened its stream.
            self.outlets.send(Status("refused", f"{why.code} {event.claimed.team}"))

    def _is_due(self, message: ResultsMessage, worker: str) -> bool:
        """Whether an answer is due: a worker that asks without end must not delay the packets."""
        now, key = self.now(), (worker, type(message).__name__)
        if now - self._answered_at.get(key, -ANSWER_EVERY_S) < ANSWER_EVERY_S:
            return False
        self._answered_at[key] = now
        return True

    def _expect_requests(self, name: str) -> None:
        team = self.teams.joined.get(name)
        if team is not None and team.asks:
            token = self.teams.token(name)
            self.inlets.expect_requests(name, token, team.asks_uid, team.first_number)

    def _handle_judge(self, message: JudgeMessage) -> None:
        if isinstance(message, JudgeReady):
            if not message.ready:
                for answer in (self.offer, *self.teams.welcomes()):
                    self.outlets.send(answer)
                self.outlets.probe_truth()
        elif isinstance(message, Go):
            if not self._go:
                self._go_since = self.now()
            self._go, self._judge_gone_at = True, 0.0
            self._last_go = message
        elif isinstance(message, ReplayHistory):
            self.journal.resend(self._judge_gone_at or self.now())
        elif isinstance(message, Closed):
            self._closed.add(message.team)

    # --- the judge ----------------------------------------------------------------------------

    @property
    def judge_is_away(self) -> bool:
        """Whether the judge that started the run is gone. Until one sends go, nothing would be judged."""
        return self._begun and self._judge_gone_at > 0 and not self._go

    @property
    def is_held(self) -> bool:
        """Whether no packet may leave: the judge is away, or its operator has paused the run."""
        return self.judge_is_away or (self._last_go is not None and self._last_go.paused)

    @property
    def is_stopped(self) -> bool:
        """Whether the judge's operator has ended the run."""
        return self._last_go is not None and self._last_go.stopped

    @property
    def blocks_again(self) -> list[tuple[int, int]]:
        """(session, block) of each block that the judge's operator wants to be played again."""
        return [] if self._last_go is None else self._last_go.again

    def check_judge_timeout(self, wait_s: float) -> None:
        """Raise NotFoundError where the judge has been away for longer than wait_s."""
        if self.judge_is_away and self.now() - self._judge_gone_at > wait_s:
            raise NotFoundError(
                f"the judge went away and none came back for {wait_s:g} s; start `bci-judge live` "
                "again while the replay waits, and it goes on where it was"
            )

    def take_return(self) -> bool:
        """Whether a worker has replaced another one since the last call."""
        returned, self.teams.returned = self.teams.returned, False
        return returned

    # --- who takes part -----------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the judge has closed the runs of all teams."""
        return bool(self.teams.joined) and self.teams.joined.keys() <= self._closed

    @property
    def is_closed_early(self) -> bool:
        """Whether the judge has closed the run of a team that had not ended it."""
        return any(
            team.name in self._closed and not team.done for team in self.teams.joined.values()
        )

    def everyone_left(self) -> bool:
        return bool(self.teams.joined) and set(self.teams.joined) <= self._left()

    def everyone_has_all(self, *, judged: bool) -> bool:
        """Whether no team needs the streams any more; one that is judged does until the judge closes it."""
        done = {team.name for team in self.teams.joined.values() if team.done and not judged}
        return set(self.teams.joined) <= self._left() | done

    def _left(self) -> set[str]:
        """Teams whose streams have ended, or whose runs the judge has closed."""
        return self.inlets.teams_gone(self.return_s) | self._closed

    def _may_begin(self, start_on: StartOn) -> bool:
        if start_on == "now":
            return True
        if start_on == "consumer":
            return self.outlets.has_consumers()
        ready = self._all_ready() and self._requests_are_open()
        return ready and (start_on == "team" or self._go)

    def _all_ready(self) -> bool:
        """Whether a team is ready, and no other one still joins.

        A team that ended while it joined is not waited for; after the judge's go, one that still joins is
        waited for during JOINING_S, or not at all if the operator gave go.
        """
        gone = self.inlets.teams_gone(0.0)
        here = [team for team in self.teams.joined.values() if team.name not in gone]
        begins_now = self._last_go is not None and self._last_go.now
        if self._go and (begins_now or self.now() - self._go_since > JOINING_S):
            return any(team.ready for team in here)
        return bool(here) and all(team.ready for team in here)

    def _requests_are_open(self) -> bool:
        expected = any(team.asks for team in self.teams.joined.values()) and self.offer.lockstep
        return self.inlets.has_requests or not expected

    def _missing(self, start_on: StartOn, timeout_s: float) -> str:
        teams = ", ".join(
            f"{team.name} ({'ready' if team.ready else 'joining'})"
            for team in self.teams.joined.values()
        )
        waited = {
            "judge": "a judge's go (`bci-judge live`)",
            "team": "a team (`bci-decode`)",
            "consumer": "a consumer of the signal stream",
            "now": "nothing",
        }[start_on]
        return (
            f"waited {timeout_s:g} s for {waited}, which never came; judges seen: "
            f"{self.inlets.judges}; teams seen: {teams or 'none'}; messages dropped: "
            f"{self.inlets.dropped}. Start what is missing, or choose another --start"
        )
