"""The judge's view of one replay, from its first sealed message to the end of its last team's run.

Used by the judge's thread only. Everything of the replay comes from its sealed stream, whose messages are
numbered: nothing on a stream that anyone could have opened is taken. In lockstep the replay's event list is
folded as it stands; in real time packets come from it and messages from the teams, and each team's
`RealtimeOrder` settles their order.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from bci_stream.clock import OffsetTrack
from bci_stream.contest.contest import Contest
from bci_stream.contest.refusals import refusal
from bci_stream.judge.session.before_start import TeamsBeforeStart
from bci_stream.judge.session.block_requests import BlockRequests
from bci_stream.judge.session.catch_up import CatchUp
from bci_stream.judge.session.event_list import EventList
from bci_stream.judge.session.plan import SessionPlan, add_truth, total_samples
from bci_stream.judge.session.sink import Sink
from bci_stream.judge.session.team_run import TeamRun
from bci_stream.judge.session.team_runs import TeamRuns
from bci_stream.stream_health import LinkHealth
from bci_stream.wire.messages import (
    Behind,
    Done,
    FromJudge,
    Go,
    HistoryComplete,
    JudgeReady,
    Offer,
    PacketRequest,
    Ready,
    ReplayHistory,
    ReportMessage,
    ResendResults,
    ResultsMessage,
    RunEvents,
    SealedMessage,
    Status,
    Stopped,
    TruthComplete,
    TruthMessage,
    TruthNote,
    TruthProbe,
    Welcome,
)
from bci_stream.wire.verify import MessageVerifier
from tracks.common.reasons import Reason
from tracks.registry import TRACKS

logger = logging.getLogger(__name__)

SEND_EVERY_S = 0.25
SILENCE_S = 30.0
"""A replay that sends nothing for this long has ended."""


class ReplaySession:
    """Passes the replay's events and the teams' messages to the teams' runs, and sends the judge's messages.

    run: the run's id. send: sends a message on the judge stream. may_start: whether the run may begin with
    its teams, as they are now. kept_out: by track and team, whose run must not begin. restore: called once
    track and logs of an earlier judge are known. go_given: the operator has started the run. problems: what
    could not be read or judged, and how often. is_over: nothing more will happen.
    """

    def __init__(
        self,
        now: Callable[[], float],
        contest: Contest,
        name: str,
        run: str,
        verifier: MessageVerifier,
        sink: Sink,
        *,
        send: Callable[[FromJudge], None],
        may_start: Callable[["ReplaySession"], bool],
        kept_out: Mapping[tuple[str, str], Reason] = MappingProxyType({}),
        restore: Callable[["ReplaySession"], None] = lambda _: None,
        refused: Callable[[str, Reason], None] = lambda *_: None,
    ) -> None:
        self._now = now
        self._contest = contest
        self._sink = sink
        self._send = send
        self._may_start = may_start
        self._verifier = verifier
        self._restore = restore
        self._refused = refused
        self.name = name
        self.run = run
        self.offer: Offer | None = None
        self.health = LinkHealth()
        self.clock = OffsetTrack()
        self.problems: Counter[str] = Counter()
        self.go_given = self.is_over = False
        self._plan: SessionPlan = {}
        self._waiting = TeamsBeforeStart(sink, kept_out)
        self._runs = TeamRuns(now, contest, run, self._plan, sink)
        self._catch_up = CatchUp()
        self._events = EventList(
            self._runs, self._waiting, self._catch_up, verifier, self.health, sink
        )
        self._answered = False  # the replay has answered this judge, with the welcomes of its teams
        self._truth_complete = False
        self._go_sent = self._is_stopped = self._abandoned = False
        self._last_message_at = now()
        self._sent_at = 0.0
        self._clock_offset_s = 0.0
        self._sealed_next: int | None = None

    @property
    def lockstep(self) -> bool:
        return self.offer is not None and self.offer.lockstep

    @property
    def track(self) -> str:
        """Empty before the replay's offer is known."""
        return "" if self.offer is None else self.offer.track

    @property
    def ignores_results(self) -> bool:
        """Whether nothing is taken from results streams, because the replay's event list has it all."""
        return self.is_over or (self.lockstep and self.has_started)

    @property
    def has_started(self) -> bool:
        return self._events.has_begun

    @property
    def repeats(self) -> BlockRequests:
        """The blocks that are to be played again."""
        return self._events.repeats

    @property
    def is_paused(self) -> bool:
        """Whether the operator holds the packets back."""
        return self._runs.is_paused

    @property
    def is_live(self) -> bool:
        """Whether the replay plays a device, which can't be paused."""
        return bool(self._plan) and total_samples(self._plan) is None

    @property
    def teams(self) -> Mapping[str, TeamRun]:
        """The runs that have begun, by team."""
        return self._runs.by_team

    @property
    def present_teams(self) -> list[str]:
        """Teams that are ready, or whose runs have begun."""
        return sorted(self._waiting.ready | self.teams.keys())

    @property
    def left(self) -> Mapping[str, Reason]:
        """Teams that left before the start, and why."""
        return self._waiting.left

    # --- polling ------------------------------------------------------------------------------

    def poll(
        self,
        gone: list[str],
        *,
        read_to: float,
        replay_is_gone: bool,
        unseen: Collection[str] = (),
    ) -> None:
        """Fold what is certain, and send.

        gone: teams whose streams have ended. read_to: messages that arrived before this time have been
        received. unseen: teams whose streams are open, but are not found.
        """
        now = self._now()
        if not (self.has_started or self._go_sent):
            for team in self._waiting.ready.intersection(gone):
                self._waiting.leave(team)
        self._runs.note_unseen(unseen)
        if replay_is_gone and now - self._last_message_at > self._contest.limits.return_s:
            self._stop_all(Reason("replay_gone", replay=self.name))
        self._end_catching_up(now)
        self._runs.add_outages(now)
        self._runs.settle(gone, now, read_to)
        if now - self._last_message_at > SILENCE_S:
            self._stop_all(Reason("replay_silent", replay=self.name, silent_s=SILENCE_S))
        if now - self._sent_at >= SEND_EVERY_S:
            self._sent_at = now
            self._send_state(now)

    def judge_stalled(self, since: float, at: float) -> None:
        """The judge's process stood still; in lockstep this changes nothing, since the replay measures."""
        if not self.lockstep and self.has_started and not self.is_over:
            self._runs.add_fault(since, at, "outage_judge")

    def _end_catching_up(self, now: float) -> None:
        """Go on if the replay's history is complete and the teams have answered."""
        if not self._catch_up.is_complete(now, self._runs.running, lockstep=self.lockstep):
            return
        absent_since, held = self._catch_up.finish(self._now())
        if absent_since is not None and not self.lockstep:
            self._runs.add_fault(absent_since, self._now(), "outage_judge")
        for message in held:
            self.receive(message.message, message.text, message.at)

    # --- messages of the teams ----------------------------------------------------------------

    def takes(self, message: ResultsMessage) -> bool:
        """Whether this message is taken from its results stream.

        In lockstep reports and their order are taken from the replay's sealed event list instead. Before
        the offer is known nothing is taken: the team repeats it, or is asked for it again.
        """
        if self.offer is None:
            return False
        return not (self.lockstep and isinstance(message, PacketRequest | ReportMessage | Done))

    def receive(self, message: ResultsMessage, text: str, at: float) -> None:
        """A verified message of a team of this run, which arrived at this time."""
        if self.ignores_results:
            return
        if self._catch_up.is_active:
            self._catch_up.hold(message, text, at)
            return
        team = message.team
        if self._is_kept_out(team):
            if isinstance(message, Ready):
                self._waiting.add_outside(team)
            return
        if not self._contest.takes(team, self.track):
            self._sink.alarm(Reason("team_not_on_track", team=team, track=self.track))
        elif isinstance(message, Done) and not (self.has_started or self._go_sent):
            self._waiting.leave(team)
        elif isinstance(message, Ready) and team not in self.teams:
            # A lockstep replay has one team, which it has welcomed.
            if not self.lockstep or team in self._waiting.welcomed:
                self._add_team(team)
        elif isinstance(message, Ready):
            self._runs.note_ready(team)
        elif isinstance(message, Behind):
            status = "lagging" if message.seconds > 0 else "running"
            self._sink.team(team, self.track, status, lag_s=message.seconds)
        elif isinstance(message, PacketRequest | ReportMessage | Done) and self._knows(team):
            self._runs.open(team).receive(message, text, at)

    def _is_kept_out(self, team: str) -> bool:
        return team not in self.teams and self._waiting.is_kept_out(team)

    def _knows(self, team: str) -> bool:
        return team in self.teams or team in self._waiting.ready

    def _add_team(self, team: str) -> None:
        self._waiting.add(team)
        if self.has_started:
            self._runs.open(team)

    def token_refused(self, team: str, why: Reason) -> None:
        """The token of a team in the run is not valid any more: what it sends is dropped."""
        if team in self._runs.running and not self.is_over:
            self._sink.team(team, self.track, "gone", why)

    # --- messages of the replay ---------------------------------------------------------------

    def receive_sealed(self, sealed: SealedMessage, at: float, offset_s: float) -> None:
        """A message of the sealed stream, which arrived at this time; repeated ones are ignored.

        offset_s: what must be added to the replay's times to get the judge's.
        """
        if self._sealed_next is not None and sealed.seq < self._sealed_next:
            self.problems["a sealed message that was sent before"] += 1
            return
        if self._sealed_next is not None and sealed.seq > self._sealed_next and self.has_started:
            self._catch_up.begin()  # messages are missing: ask for all of them
            self.health.missing += sealed.seq - self._sealed_next
        self._sealed_next = sealed.seq + 1
        self._last_message_at = at
        self._clock_offset_s = self.health.offset_s = offset_s
        self.health.last_at = at
        self.clock.add(at, offset_s)
        if self.clock.is_news():
            logger.info("replay %s: %s; its times are converted", self.name, self.clock)
        self._handle(sealed.message, at)

    def _handle(self, message: TruthMessage, at: float) -> None:
        if isinstance(message, Offer) and self.offer is None:
            self._handle_offer(message)
        elif self.offer is None:
            return  # everything is sent again once the offer is here
        elif isinstance(message, Welcome):
            self._waiting.welcomed.add(message.team)
            if message.packet >= 0 and not self.has_started:
                # A lockstep run has begun, and waits for a judge: it began under one that died at once.
                self._catch_up.begin_after_start()
                self._waiting.ready.add(message.team)
        elif isinstance(message, TruthNote):
            add_truth(self._plan, message)
            self.repeats.add_truth(message.session, message.event)
        elif isinstance(message, TruthProbe):
            self._answered = True
        elif isinstance(message, TruthComplete):
            self._truth_complete = True
        elif isinstance(message, RunEvents):
            self._events.add(message, at, self._clock_offset_s, truth_complete=self._truth_complete)
        elif isinstance(message, HistoryComplete):
            self._catch_up.set_history(message.gone_at + self._clock_offset_s, at)
            self._end_catching_up(at)
        elif isinstance(message, Stopped):
            self._stop_all(Reason("replay_stopped", detail=message.reason))
        elif isinstance(message, Status) and message.state != "alive":
            self._handle_status(message, at)

    def _handle_offer(self, offer: Offer) -> None:
        if offer.track not in TRACKS:
            why = f"track {offer.track!r}, which has no rules" if offer.track else "no track"
            self.problems[f"not judged: it plays {why}; tracks are {', '.join(TRACKS)}"] += 1
            self.is_over = True
            return
        self.offer = offer
        self._waiting.track = offer.track
        messages = self._runs.set_offer(offer)
        if not self.lockstep:  # where the replay's list, which is folded again, has them all
            self._verifier.restore(messages)
        if self.teams:
            self._events.has_begun = True
            self._catch_up.begin_after_restart(is_active=bool(self._runs.running))
            if not self._runs.running:
                self._runs.finished_at = self._now()
        self._restore(self)

    def _handle_status(self, status: Status, at: float) -> None:
        if status.state == "second-worker":
            self._sink.alarm(Reason("second_worker", team=status.detail))
        elif status.state == "refused":
            code, _, team = status.detail.partition(" ")
            why = refusal(code, team)
            if why is not None:
                self._refused(team, why)
        else:
            self._runs.add_status(status, at)

    # --- the operator ---------------------------------------------------------------------------

    def set_paused(self, paused: bool) -> None:
        """Hold the packets back, or let them go on; no team's time runs meanwhile."""
        self._runs.set_paused(paused)
        self._sent_at = 0.0  # the replay learns of it with the next poll

    def play_again(self, session: int, block: int) -> None:
        """Have a block played again at the end of its session; both are counted from 0."""
        self.repeats.asked.append((session, block))
        self._sent_at = 0.0

    def stop_runs(self, why: Reason) -> None:
        """End all runs, and the replay with them."""
        self._is_stopped = True
        self._stop_all(why)
        self._sent_at = 0.0

    def keep_out(self, team: str) -> None:
        """A team of which no run has begun is kept out."""
        self._waiting.keep_out(team)

    def let_in(self, team: str) -> None:
        """Take a team that was kept out, if it is ready."""
        if self._waiting.let_in(team):
            self._add_team(team)

    # --- messages of the judge ----------------------------------------------------------------

    def _send_state(self, now: float) -> None:
        """Send what the replay and the teams must know; repeated, so that they know the judge is there."""
        contest, run = self._contest.name, self.run
        if self.offer is None or not (self._answered or self.has_started):
            self._send(JudgeReady(contest, run))
            return
        for message in self._runs.messages(now, is_catching_up=self._catch_up.is_active):
            self._send(message)
        if self._catch_up.is_active:
            self._send_ready()
            if self._catch_up.needs_history:
                self._send(ReplayHistory(contest, run))
        elif self.has_started or self._may_go():
            self._go_sent = True
            self._send(
                Go(
                    contest,
                    run,
                    now=self.go_given,
                    paused=self.is_paused,
                    stopped=self._is_stopped,
                    again=self.repeats.asked,
                )
            )
        else:
            self._send_ready()
            # A team whose run has begun already does not send `ready` unless it is asked.
            for team in self._waiting.unanswered():
                self._send(ResendResults(contest, run, team=team, n=0))
        if self.has_started and self._runs.all_closed(now):
            # In real time others may join until the last packet; a lockstep replay has one team.
            self.is_over = self._runs.finished_at is not None or self.lockstep

    def _may_go(self) -> bool:
        if self.is_paused or not self.present_teams:
            return False
        return self.go_given or self._may_start(self)

    def _send_ready(self) -> None:
        teams = self.present_teams
        self._send(JudgeReady(self._contest.name, self.run, teams=teams, ready=True))

    # --- the end ------------------------------------------------------------------------------

    def _stop_all(self, why: Reason) -> None:
        """The replay has ended; the session goes on until the teams know that their runs are closed."""
        self._runs.stop(why)
        if not self.is_over:
            self._waiting.show_stopped(self.teams, why)
        self.is_over = self.is_over or not self.teams

    def close(self) -> None:
        """End all runs, unless the session was abandoned.

        A restarted judge that the replay has not sent its truth again leaves the logs to the next one.
        """
        if self._abandoned:
            return
        if self._catch_up.is_restart and not self._truth_complete:
            self._leave_open()
        else:
            self._stop_all(Reason("judge_stopped"))

    def _leave_open(self) -> None:
        self.is_over = self._abandoned = True
        self._runs.abandon()

    def abandon(self, error: Exception) -> None:
        """Leave the logs as they are, without an end: a restarted judge continues them."""
        self.problems[f"judging it failed: {type(error).__name__}: {error}"] += 1
        self._leave_open()
        self._sink.alarm(Reason("session_failed", replay=self.name, detail=str(error)))
