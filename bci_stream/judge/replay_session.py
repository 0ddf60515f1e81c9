"""The judge's view of one replay: its truth, its events, and the runs of its teams.

Used by the judge's thread only. Everything of the replay comes from its sealed stream, whose messages are
numbered: nothing on a stream that anyone could have opened is taken. In lockstep the replay's event list is
folded as it stands; in real time packets come from it and messages from the teams, and each team's
`RealtimeOrder` settles their order.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol

from bci_stream.amendments import log_seal
from bci_stream.clock import OffsetTrack
from bci_stream.contest.contest import Contest
from bci_stream.contest.refusals import refusal
from bci_stream.judge.operator.block_requests import BlockRequests
from bci_stream.judge.ordering import PacketReceived, RealtimeOrder, message_event
from bci_stream.judge.outages import OutageTracker
from bci_stream.judge.team_run import (
    SessionPlan,
    TeamRun,
    add_truth,
    total_samples,
)
from bci_stream.runlog import RunLog, earlier_logs, make_runs_folder
from bci_stream.stream_health import LinkHealth
from bci_stream.wire.messages import (
    Behind,
    Closed,
    Done,
    FromJudge,
    Go,
    HistoryComplete,
    JudgeReady,
    Offer,
    PacketEvent,
    PacketRequest,
    Ready,
    ReplayHistory,
    ReportMessage,
    ResendResults,
    ResultsMessage,
    RunEvents,
    SealedMessage,
    StallEvent,
    Status,
    Stopped,
    TeamMessageEvent,
    TruthComplete,
    TruthMessage,
    TruthNote,
    TruthProbe,
    Welcome,
)
from bci_stream.wire.verify import MessageVerifier
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.registry import TRACKS
from tracks.run import Run

logger = logging.getLogger(__name__)

SEND_EVERY_S = 0.25
SILENCE_S = 30.0
"""A replay that sends nothing for this long is gone."""

CLOSING_S = 1.5
"""How long `closed` is sent after a run has ended, so that its team receives it and may leave."""


ANSWER_S = 4.0
"""How long a restarted judge waits for the teams' answers; a team that has left gives none."""


class Sink(Protocol):
    """Where verdicts are shown: a leaderboard or a progress bar."""

    def team(
        self,
        name: str,
        track: str,
        status: str = ...,
        reason: str | Reason = ...,
        lag_s: float = ...,
    ) -> None: ...
    def alarm(self, reason: Reason) -> None:
        """Show something that the organiser must know."""

    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: list[Verdict], run: Run
    ) -> None: ...


def _named(title: str) -> dict[str, str]:
    """The display name in the run line of a log; a team that has none adds nothing."""
    return {"name": title} if title else {}


class ReplaySession:
    """Follows a replay from its first sealed message to the end of its last team's run.

    run: the run's id. send: sends a message on the judge stream. may_start: whether the run may begin with
    its teams, as they are now. kept_out: by track and team, whose run must not begin. restore: called once
    track and logs of an earlier judge are known. go_given: the operator has started the run. is_paused:
    the operator holds the packets back. left: teams that left before the start, and why. problems: what could
    not be read or judged, and how often. is_over: nothing more will happen.
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
        self._verifier = verifier
        self._sink = sink
        self._send = send
        self._may_start = may_start
        self._kept_out = kept_out
        self._restore = restore
        self._refused = refused
        self._ready_outside: set[str] = set()
        self.go_given = self.is_paused = self._is_stopped = False
        self.health = LinkHealth()
        self._clock_offset_s = 0.0
        self.clock = OffsetTrack()
        self.name = name
        self.run = run
        self.offer: Offer | None = None
        self.is_over = self._abandoned = False
        self.problems: Counter[str] = Counter()
        self.teams: dict[str, TeamRun] = {}
        self._waiting: set[str] = set()
        self.left: dict[str, Reason] = {}
        self._unseen: set[str] = set()
        self._lost_at: dict[str, float] = {}
        self._closed_at: dict[str, float] = {}
        self._leaving: set[str] = set()
        self._plan: SessionPlan = {}
        self._answered = False  # the replay has answered this judge, with the welcomes of its teams
        self._truth_complete = False
        self._welcomed: set[str] = set()
        self._started = self._go_sent = False
        self._finished_at: float | None = None
        self._last_message_at = now()
        self._sent_at = 0.0
        self._sealed_next: int | None = None
        self._events_next = 0
        self._outages: OutageTracker | None = None
        self.repeats = BlockRequests()
        # After a restart of the judge, or if events are missing: what arrives before the replay's history
        # is held back.
        self._catching_up = False
        self._restarted = False
        self._missed_start = False
        self._first_left = math.inf
        self._held_messages: list[tuple[ResultsMessage, str, float]] = []
        self._history: tuple[float, float] | None = None  # (gone_at, when the history was complete)

    @property
    def lockstep(self) -> bool:
        return self.offer is not None and self.offer.lockstep

    @property
    def times_arrivals(self) -> bool:
        """Whether the arrival time of messages matters, as it does in real time."""
        return self.offer is not None and not self.lockstep and not self.is_over

    @property
    def track(self) -> str:
        """Empty before the replay's offer is known."""
        return "" if self.offer is None else self.offer.track

    @property
    def ignores_results(self) -> bool:
        """Whether nothing is taken from results streams, because the replay's event list has it all."""
        return self.is_over or (self.lockstep and self._started)

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
        self._note_absent(gone, unseen)
        if replay_is_gone and now - self._last_message_at > self._contest.limits.return_s:
            self._stop_all(Reason("replay_gone", replay=self.name))
        self._end_catching_up(now)
        self._add_outages(now)
        self._settle(gone, now, read_to)
        if now - self._last_message_at > SILENCE_S:
            self._stop_all(Reason("replay_silent", replay=self.name, silent_s=SILENCE_S))
        if now - self._sent_at >= SEND_EVERY_S:
            self._sent_at = now
            self._send_state(now)

    def _note_absent(self, gone: Collection[str], unseen: Collection[str]) -> None:
        """A team that is gone before the start is not waited for; one that is cut off is shown as gone."""
        if not (self._started or self._go_sent):
            for team in self._waiting.intersection(gone):
                self._leave_before_start(team)
        for team in self.teams.keys() & (self._unseen ^ set(unseen)):
            if self.teams[team].ended is not None or team in self._lost_at:
                continue
            if team in unseen:
                self._sink.team(team, self.track, "gone", Reason("out_of_sight"))
            else:
                self._sink.team(team, self.track, "running", Reason("returned"))
        self._unseen = set(unseen)

    def _leave_before_start(self, team: str) -> None:
        self._waiting.discard(team)
        self.left[team] = Reason("left_before_start")
        self._sink.team(team, self.track, "missing", self.left[team])

    def token_refused(self, team: str, why: Reason) -> None:
        """The token of a team in the run is not valid any more: what it sends is dropped."""
        if team in self.teams and self.teams[team].ended is None and not self.is_over:
            self._sink.team(team, self.track, "gone", why)

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
        if self._catching_up:
            self._held_messages.append((message, text, at))
            return
        team = message.team
        if self._is_kept_out(team):
            if isinstance(message, Ready):
                self._ready_outside.add(team)
            return
        if not self._contest.takes(team, self.track):
            self._sink.alarm(Reason("team_not_on_track", team=team, track=self.track))
        elif isinstance(message, Done) and not (self._started or self._go_sent):
            self._leave_before_start(team)
        elif isinstance(message, Ready) and team not in self.teams:
            if self.lockstep and team not in self._welcomed:
                return  # a lockstep replay has one team
            self._add_team(team)
        elif isinstance(message, Ready) and team in self._lost_at:
            del self._lost_at[team]
            self._sink.team(team, self.track, "running", Reason("returned"))
        elif isinstance(message, Behind):
            status = "lagging" if message.seconds > 0 else "running"
            self._sink.team(team, self.track, status, lag_s=message.seconds)
        elif isinstance(message, PacketRequest | ReportMessage | Done) and self._knows(team):
            team_run = self._open(team)
            team_run.count_message(len(text), at)
            if team_run.order is not None:
                team_run.order.messages.put(message, at, text)

    def _knows(self, team: str) -> bool:
        return team in self.teams or team in self._waiting

    def _add_team(self, team: str) -> None:
        if team not in self._waiting:
            self._sink.team(team, self.track, "waiting")
            self._waiting.add(team)
            self.left.pop(team, None)
        if self._started:
            self._open(team)

    # --- messages of the replay ---------------------------------------------------------------

    def receive_sealed(self, sealed: SealedMessage, at: float, offset_s: float) -> None:
        """A message of the sealed stream, which arrived at this time; repeated ones are ignored.

        offset_s: added to the replay's times it gives the judge's.
        """
        if self._sealed_next is not None and sealed.seq < self._sealed_next:
            self.problems["a sealed message that was sent before"] += 1
            return
        if self._sealed_next is not None and sealed.seq > self._sealed_next and self._started:
            self._catching_up = True  # messages are missing: ask for all of them
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
            self._welcomed.add(message.team)
            if message.packet >= 0 and not self._started:
                # A lockstep run has begun, and waits for a judge: it began under one that died at once.
                self._catching_up = self._restarted = self._missed_start = True
                self._waiting.add(message.team)
        elif isinstance(message, TruthNote):
            add_truth(self._plan, message)
            self.repeats.add_truth(message.session, message.event)
        elif isinstance(message, TruthProbe):
            self._answered = True
        elif isinstance(message, TruthComplete):
            self._truth_complete = True
        elif isinstance(message, RunEvents):
            self._handle_events(message, at)
        elif isinstance(message, HistoryComplete):
            self._history = self._history or (message.gone_at + self._clock_offset_s, at)
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
        limits = self._contest.limits
        if not offer.lockstep or TRACKS[offer.track].under(self._contest.rules(offer.track)).timed:
            self._outages = OutageTracker(limits.outage_s, self._grace_s())
        self._resume_earlier()
        self._restore(self)

    def _handle_status(self, status: Status, at: float) -> None:
        if status.state == "second-worker":
            self._sink.alarm(Reason("second_worker", team=status.detail))
            return
        if status.state == "refused":
            code, _, team = status.detail.partition(" ")
            why = refusal(code, team)
            if why is not None:
                self._refused(team, why)
            return
        for team_run in self.teams.values():
            team_run.add_status(status, at)
            detail = f"{status.state} {status.detail}"
            self._sink.team(team_run.team, self.track, "running", detail)

    def _handle_events(self, message: RunEvents, arrived: float) -> None:
        """Fold the events that are new; if some are missing, ask for all."""
        if not message.events:
            return
        if not self._truth_complete or (message.first > 0 and not self._started):
            # The run began under a judge that died before it had begun a log.
            self._catching_up = self._restarted = self._missed_start = True
            if not self._truth_complete:
                return
        self._start()
        if message.first > self._events_next:
            self._catching_up = True
            return
        for event in message.events[self._events_next - message.first :]:
            self._events_next += 1
            if isinstance(event, StallEvent):
                self._add_fault(event.since, event.at, "outage_replay")
            elif self.lockstep:
                self._fold(message.team, event)
            elif isinstance(event, PacketEvent):
                self._take_packet(event, None if self._catching_up else arrived)

    def _fold(self, team: str, event: PacketEvent | TeamMessageEvent) -> None:
        """Lockstep: an event of the only team; a restarted judge passes over those that are in its log."""
        team_run = self.teams.get(team)
        if team_run is None:
            return
        at = event.at + self._clock_offset_s
        if isinstance(event, PacketEvent):
            self._note_packet(event, at, at, None)
            if not team_run.pass_over():
                team_run.fold(PacketReceived(event.note, at))
            return
        message = self._verifier.verify(event.text)
        if isinstance(message, ReportMessage | Done) and message.team == team_run.team:
            if isinstance(message, ReportMessage) and team_run.pass_over():
                return
            team_run.count_message(len(event.text), at)
            team_run.fold(message_event(message, at, event.text))

    def _take_packet(self, event: PacketEvent, arrived: float | None) -> None:
        """Real time: a packet counts from when it left, not from when it was due."""
        left = event.at + self._clock_offset_s
        self._note_packet(event, event.stamp + self._clock_offset_s, left, arrived)
        for team_run in self.teams.values():
            if team_run.order is not None and team_run.ended is None:
                team_run.order.add_note(event.note, left)

    def _note_packet(
        self, event: PacketEvent, due: float, left: float, arrived: float | None
    ) -> None:
        self._first_left = min(self._first_left, left)
        self.health.add_packet(due, left, arrived)
        if self._outages is not None:
            self._outages.add_packet(event.note.i, due, left, arrived)
        for session, block in self.repeats.add_packet(event.note):
            why = Reason("block_not_repeated", block=block + 1, session=session + 1)
            self._sink.alarm(why)
        if event.note.finish:
            self._finished_at = self._now()

    # --- outages ------------------------------------------------------------------------------

    def judge_stalled(self, since: float, at: float) -> None:
        """The judge's process stood still; in lockstep this changes nothing, since the replay measures."""
        if not self.lockstep and self._started and not self.is_over:
            self._add_fault(since, at, "outage_judge")

    def _add_fault(self, since: float, until: float, code: str) -> None:
        if self._outages is not None:
            self._outages.add_fault(since, until, code)

    def _add_outages(self, until: float) -> None:
        """Log the outages of faults that were over by this time."""
        for outage in () if self._outages is None else self._outages.take(until):
            self._sink.alarm(outage.cause)
            for team_run in self.teams.values():
                team_run.add_outage(outage, self._now())

    def _add_pending_outages(self, team_run: TeamRun, now: float) -> None:
        """Log the outages that are not over yet for a team that leaves; the others get them later."""
        if self._outages is None or not team_run.is_leaving or team_run.team in self._leaving:
            return
        self._leaving.add(team_run.team)
        for outage in self._outages.pending():
            team_run.add_outage(outage, now)

    # --- the operator ---------------------------------------------------------------------------

    @property
    def has_started(self) -> bool:
        return self._started

    @property
    def is_live(self) -> bool:
        """Whether the replay plays a device, which can't be paused."""
        return bool(self._plan) and total_samples(self._plan) is None

    def _may_go(self) -> bool:
        if self.is_paused or not self.present_teams:
            return False
        return self.go_given or self._may_start(self)

    def set_paused(self, paused: bool) -> None:
        """Hold the packets back, or let them go on; no team's time runs meanwhile."""
        self.is_paused = paused
        now = self._now()
        for team_run in self.teams.values():
            team_run.hold(now) if paused else team_run.release(now)
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

    def _is_kept_out(self, team: str) -> bool:
        return (self.track, team) in self._kept_out and team not in self.teams

    def keep_out(self, team: str) -> None:
        """A team of which no run has begun is kept out."""
        if team in self._waiting:
            self._waiting.discard(team)
            self._ready_outside.add(team)

    def let_in(self, team: str) -> None:
        """Take a team that was kept out, if it is ready."""
        if team in self._ready_outside:
            self._ready_outside.discard(team)
            self._add_team(team)

    # --- the teams' runs ----------------------------------------------------------------------

    def _start(self) -> None:
        """The first packet has been sent: open the run of every team that is ready."""
        if not self._started:
            self._started = True
            ready = self._welcomed if self._missed_start else set()
            ready = {team for team in ready if not self._is_kept_out(team)}
            for team in sorted(self._waiting | ready):
                self._open(team)

    def _open(self, team: str) -> TeamRun:
        if team not in self.teams:
            when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            make_runs_folder(self._contest.runs)
            name = f"{self.track}-{team}-{when}-{self.run}.jsonl"
            self.teams[team] = self._team_run(team, RunLog(self._contest.runs / name), [])
            if self.is_paused:
                self.teams[team].hold(self._now())
            self._sink.team(team, self.track, "running")
        return self.teams[team]

    def _team_run(self, team: str, log: RunLog, past: list[dict[str, Any]]) -> TeamRun:
        assert self.offer is not None
        track = self.track
        return TeamRun(
            team,
            track,
            self._contest.rules(track),
            self._contest.limits,
            self._plan,
            log,
            self._now(),
            order=None if self.lockstep else self._realtime_order(past),
            publish=lambda event, verdicts, run: self._sink.event(
                team, track, event, verdicts, run
            ),
            past=past,
            seal=log_seal(self._contest.keys.signing_key(), self._contest.name, self.run, team),
            pace=self.offer.pace,
            samples=total_samples(self._plan),
            **_named(self._contest.display_name(team)),
        )

    def _realtime_order(self, past: list[dict[str, Any]]) -> RealtimeOrder:
        packets = [event for event in past if event["kind"] == "packet"]
        reports = [event for event in past if event["kind"] == "report"]
        next_packet = packets[-1].get("i", len(packets) - 1) + 1 if packets else 0
        next_message = reports[-1].get("n", len(reports) - 1) + 1 if reports else 0
        return RealtimeOrder(self._grace_s(), next_packet, next_message)

    def _grace_s(self) -> float:
        assert self.offer is not None
        return self._contest.limits.grace_packets * self.offer.packet_s

    def _settle(self, gone: list[str], now: float, read_to: float) -> None:
        """Fold what has become certain, and end the runs of teams that have left."""
        limit_s = self._contest.limits.silence_s
        if self._finished_at is not None:
            self._add_outages(math.inf)  # before a run ends
        for team_run in self.teams.values():
            self._add_pending_outages(team_run, now)
            team_run.settle(now, read_to)
            if team_run.ended is None and team_run.team in gone:
                self._lose(team_run, now)
            is_late = self._finished_at is not None and now - self._finished_at > limit_s
            if team_run.ended is None and is_late:
                team_run.end("stopped", Reason("did_not_end"), now)
            if team_run.ended is not None and team_run.team not in self._closed_at:
                self._closed_at[team_run.team] = now
                why = team_run.why or team_run.detail
                self._sink.team(team_run.team, self.track, team_run.ended, why)

    def _lose(self, team_run: TeamRun, now: float) -> None:
        """A team's stream has ended: it may return, in real time until the last packet."""
        team = team_run.team
        if team not in self._lost_at and not team_run.is_leaving:
            self._sink.team(team, self.track, "gone", Reason("stream_lost"))
        lost_at = self._lost_at.setdefault(team, now)
        may_return = not self.lockstep and self._finished_at is None
        if team_run.is_leaving or (
            not may_return and now - lost_at >= self._contest.limits.return_s
        ):
            team_run.leave("crashed", Reason("stream_lost"), now)

    # --- after a restart of the judge ---------------------------------------------------------

    def _resume_earlier(self) -> None:
        """Continue the logs that an earlier judge of this run has left."""
        for team, path, events in earlier_logs(self._contest.runs, self.run):
            self.teams[team] = self._team_run(team, RunLog(path, append=True), events)
        self._started = self._restarted = bool(self.teams)
        self._catching_up = any(team_run.ended is None for team_run in self.teams.values())
        if self._started and not self._catching_up:
            self._finished_at = self._now()

    def _end_catching_up(self, now: float) -> None:
        """What teams sent while no judge was there counts as received when the last one was.

        In real time a restarted judge first waits until each team has sent again what it had to send: a
        message that came later would hold up those after it.
        """
        if not self._catching_up or self._history is None:
            return
        gone_at, complete_at = self._history
        waits = self._restarted and not self.lockstep and now - complete_at < ANSWER_S
        if waits and not self._all_have_answered():
            return
        self._catching_up, self._history = False, None
        if self._restarted and not self.lockstep:
            since = self._first_left if self._missed_start else gone_at
            self._add_fault(min(since, gone_at), self._now(), "outage_judge")
        latest = gone_at if self._restarted else self._now()
        self._restarted = False
        held, self._held_messages = self._held_messages, []
        for message, text, at in held:
            self.receive(message, text, min(at, latest))

    def _all_have_answered(self) -> bool:
        """Whether each team whose run goes on has sent `ready`, as it does after sending again."""
        answered = {
            message.team for message, *_ in self._held_messages if isinstance(message, Ready)
        }
        return answered >= {team for team, run in self.teams.items() if run.ended is None}

    # --- messages of the judge ----------------------------------------------------------------

    def _send_state(self, now: float) -> None:
        contest, run = self._contest.name, self.run
        if self.offer is None or not (self._answered or self._started):
            self._send(JudgeReady(contest, run))
            return
        self._send_to_teams(now)
        if self._catching_up:
            self._send_ready()
            if self._history is None:
                self._send(ReplayHistory(contest, run))
        elif self._started or self._may_go():
            self._go_sent = True
            # Repeated: it shows that the judge is still there.
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
            for team in self._welcomed - self._waiting - self._ready_outside:
                self._send(ResendResults(contest, run, team=team, n=0))
        if self._started and self._all_closed(now):
            # In real time others may join until the last packet; a lockstep replay has one team.
            self.is_over = self._finished_at is not None or self.lockstep

    def _send_to_teams(self, now: float) -> None:
        contest, run = self._contest.name, self.run
        for team in self._closed_at:
            team_run = self.teams[team]
            self._send(
                Closed(
                    contest,
                    run,
                    team=team,
                    reason=team_run.ended or "",
                    head=team_run.head,
                    lines=team_run.lines,
                )
            )
        for team_run in self.teams.values():
            if team_run.order is None:
                continue
            messages = team_run.order.messages
            if self._catching_up or (team_run.ended is None and messages.is_missing(now)):
                self._send(ResendResults(contest, run, team=team_run.team, n=messages.expected))

    def _send_ready(self) -> None:
        teams = self.present_teams
        self._send(JudgeReady(self._contest.name, self.run, teams=teams, ready=True))

    @property
    def present_teams(self) -> list[str]:
        """Teams that are ready, or whose runs have begun."""
        return sorted(self._waiting | set(self.teams))

    def _all_closed(self, now: float) -> bool:
        """Whether every run has ended, and its team has had the time to learn of it."""
        ends = [self._closed_at.get(team, now) for team in self.teams]
        return bool(ends) and all(now - end > CLOSING_S for end in ends)

    # --- the end ------------------------------------------------------------------------------

    def _stop_all(self, why: Reason) -> None:
        """The replay has ended; the session goes on until the teams know that their runs are closed."""
        now = self._now()
        self._add_outages(math.inf)
        for team_run in self.teams.values():
            team_run.stop(why, now)
        for team in self._waiting - self.teams.keys() if not self.is_over else ():
            self._sink.team(team, self.track, "stopped", why)  # its run has not begun
        self._finished_at = self._finished_at or now
        self.is_over = self.is_over or not self.teams

    def close(self) -> None:
        """End all runs, unless the session was abandoned.

        A restarted judge that the replay has not sent its truth again leaves the logs to the next one.
        """
        if self._abandoned:
            return
        if self._restarted and not self._truth_complete:
            self._leave_open()
        else:
            self._stop_all(Reason("judge_stopped"))

    def _leave_open(self) -> None:
        self.is_over = self._abandoned = True
        for team_run in self.teams.values():
            team_run.abandon()

    def abandon(self, error: Exception) -> None:
        """Leave the logs as they are, without an end: a restarted judge continues them."""
        self.problems[f"judging it failed: {type(error).__name__}: {error}"] += 1
        self._leave_open()
        self._sink.alarm(Reason("session_failed", replay=self.name, detail=str(error)))
