"""The judge's view of one replay: its streams, its truth, and the runs of its teams.

Used by the judge's thread only. In lockstep the replay's sealed event list is folded as it stands; in
real time packet notes come from the control stream and messages from the teams, and each team's
`RealtimeOrder` settles their order.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError, WireError
from bci_stream.judge.ordering import PacketReceived, RealtimeOrder, message_event
from bci_stream.judge.team_run import SessionPlan, TeamRun, add_truth, total_samples
from bci_stream.runlog import RunLog, earlier_logs
from bci_stream.wire import names
from bci_stream.wire.crypto import unseal
from bci_stream.wire.messages import (
    Behind,
    Closed,
    ControlMessage,
    Done,
    Go,
    HistoryComplete,
    JudgeReady,
    Message,
    Offer,
    PacketEvent,
    PacketNote,
    PacketRequest,
    Ready,
    ReplayHistory,
    ReportMessage,
    ResendResults,
    ResultsMessage,
    RunEvents,
    Status,
    Stopped,
    TeamMessageEvent,
    TruthComplete,
    TruthMessage,
    TruthNote,
    TruthProbe,
    Welcome,
    read_control,
    read_truth,
)
from bci_stream.wire.transport import FoundStream, TextInlet, Transport
from bci_stream.wire.verify import MessageVerifier
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.registry import TRACKS
from tracks.run import Run

OPEN_S = 5.0
SEND_EVERY_S = 0.25
SILENCE_S = 30.0
"""A replay that sends nothing for this long is gone."""

CLOSING_S = 1.5
"""How long `closed` is sent after a run has ended, so that its team receives it and may leave."""

GO_AGAIN_S = 1.0
"""How long a restarted judge sends `go`, so that a replay that waits for it receives it."""


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
    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: list[Verdict], run: Run
    ) -> None: ...


class ReplaySession:
    """Follows a replay from its first offer to the end of its last team's run.

    send: sends a message on the judge stream. may_start: whether the run may begin with these teams.
    problems: what could not be read or judged, and how often. is_over: nothing more will happen.
    """

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        control: FoundStream,
        truth: FoundStream,
        verifier: MessageVerifier,
        sink: Sink,
        *,
        send: Callable[[Message], None],
        may_start: Callable[[list[str]], bool],
    ) -> None:
        """Raises NotFoundError if the replay has ended."""
        self._now = transport.now
        self._contest = contest
        self._verifier = verifier
        self._sink = sink
        self._send = send
        self._may_start = may_start
        self._control = transport.text_inlet(control, OPEN_S)
        self._truth = transport.text_inlet(truth, OPEN_S)
        self._clock_offset_s = self._control.clock_offset_s()
        self.name = names.owner(control.source_id)
        self.offer: Offer | None = None
        self.is_over = False
        self._is_gone = False
        self.problems: Counter[str] = Counter()
        self.teams: dict[str, TeamRun] = {}
        self._waiting: set[str] = set()
        self._closed_at: dict[str, float] = {}
        self._plan: SessionPlan = {}
        self._truth_probed = False
        self._truth_complete = False
        self._welcomed: set[str] = set()  # "" is this judge
        self._started = False
        self._finished_at: float | None = None
        self._last_message_at = self._now()
        self._sent_at = 0.0
        # After a restart of the judge: what arrives before the replay's history is held back.
        self._catching_up = False
        self._go_until = 0.0
        self._held_messages: list[tuple[ResultsMessage, float]] = []
        self._held_packets: list[tuple[PacketNote, float]] = []

    @property
    def run(self) -> str:
        """The run's id; empty before the first offer."""
        return self.offer.run if self.offer else ""

    @property
    def _lockstep(self) -> bool:
        return self.offer is not None and self.offer.lockstep

    @property
    def times_arrivals(self) -> bool:
        """Whether the arrival time of messages matters, as it does in real time."""
        return self.offer is not None and not self._lockstep and not self.is_over

    @property
    def _track(self) -> str:
        assert self.offer is not None
        return self.offer.track

    # --- polling ------------------------------------------------------------------------------

    def poll(self, gone: list[str]) -> None:
        """Handle all that has arrived on the replay's streams; gone: teams whose streams have ended."""
        self._poll_truth()
        self._poll_control()
        if self._is_gone:
            self._stop_all(Reason("replay_gone", replay=self.name))
        now = self._now()
        self._settle(gone, now)
        if now - self._last_message_at > SILENCE_S:
            self._stop_all(Reason("replay_silent", replay=self.name, silent_s=SILENCE_S))
        if now - self._sent_at >= SEND_EVERY_S:
            self._sent_at = now
            self._send_state(now)

    def _poll_control(self) -> None:
        for text, stamp in self._pull(self._control):
            try:
                message = read_control(text)
            except WireError as error:
                self.problems[str(error)] += 1
                continue
            self._last_message_at = self._now()
            self._handle_control(message, stamp + self._clock_offset_s)

    def _poll_truth(self) -> None:
        for text, _ in self._pull(self._truth):
            if not self.run:
                continue  # sealed for a run that is not known yet; it is sent again
            try:
                message = read_truth(unseal(text, self._contest.keys.contest_key(), self.run))
            except WireError as error:
                self.problems[str(error)] += 1
                continue
            self._handle_truth(message)
        self._release_packets()

    def _pull(self, inlet: TextInlet) -> list[tuple[str, float]]:
        try:
            return inlet.pull(0.0)
        except LostError:
            self._is_gone = True
            return []

    # --- messages of the teams ----------------------------------------------------------------

    def takes_from_team(self, message: ResultsMessage) -> bool:
        """Whether this message is taken from the results stream.

        In lockstep reports and their order are taken from the replay's sealed event list instead.
        """
        return not (self._lockstep and isinstance(message, PacketRequest | ReportMessage | Done))

    def receive(self, message: ResultsMessage, at: float) -> None:
        """A verified message of a team of this run, which arrived at this time."""
        if self.is_over:
            return
        if self._catching_up:
            self._held_messages.append((message, at))
            return
        team = message.team
        if isinstance(message, Ready) and team not in self.teams:
            if self._lockstep and team not in self._welcomed:
                return  # a lockstep replay has one team
            self._add_team(team)
        elif isinstance(message, Behind):
            status = "lagging" if message.seconds > 0 else "running"
            self._sink.team(team, self._track, status, lag_s=message.seconds)
        elif isinstance(message, PacketRequest | ReportMessage | Done) and self._knows(team):
            order = self._open(team).order
            if order is not None:
                order.messages.put(message, at)

    def _knows(self, team: str) -> bool:
        return team in self.teams or team in self._waiting

    def _add_team(self, team: str) -> None:
        if team not in self._waiting:
            self._sink.team(team, self._track, "waiting")
            self._waiting.add(team)
        if self._started:
            self._open(team)

    # --- messages of the replay ---------------------------------------------------------------

    def _handle_control(self, message: ControlMessage, at: float) -> None:
        if isinstance(message, Offer) and self.offer is None:
            self._handle_offer(message)
        elif isinstance(message, Welcome):
            self._welcomed.add(message.team)
        elif isinstance(message, PacketNote) and not self._lockstep:
            self._held_packets.append((message, at))
            self._release_packets()
        elif isinstance(message, Stopped):
            self._stop_all(Reason("replay_stopped", detail=message.reason))
        elif isinstance(message, Status) and message.state != "alive" and self.offer is not None:
            for team_run in self.teams.values():
                team_run.add_status(message, at)
                detail = f"{message.state} {message.detail}"
                self._sink.team(team_run.team, self._track, "running", detail)

    def _handle_offer(self, offer: Offer) -> None:
        if offer.track not in TRACKS:
            why = f"track {offer.track!r}, which has no rules" if offer.track else "no track"
            self.problems[f"not judged: it plays {why}; tracks are {', '.join(TRACKS)}"] += 1
            self.is_over = True
            return
        self.offer = offer
        if offer.lockstep:
            self._held_packets.clear()
        self._resume_earlier()

    def _handle_truth(self, message: TruthMessage) -> None:
        if isinstance(message, TruthProbe):
            self._truth_probed = True
        elif isinstance(message, TruthNote):
            add_truth(self._plan, message)
        elif isinstance(message, TruthComplete):
            self._truth_complete = True
        elif isinstance(message, RunEvents):
            self._handle_events(message)
        elif isinstance(message, HistoryComplete):
            self._end_catching_up(message.gone_at + self._clock_offset_s)

    def _handle_events(self, message: RunEvents) -> None:
        """Lockstep: fold the events that are new. Real time: packets from the replay's history."""
        if not self._truth_complete or not message.events:
            return
        if not self._lockstep:
            for event in message.events:
                if isinstance(event, PacketEvent):
                    self._take_packet(event.note, event.stamp + self._clock_offset_s)
            return
        self._start()
        team_run = self.teams.get(message.team)
        if team_run is None or team_run.ended is not None:
            return
        if message.first > team_run.folded:
            self._catching_up = True  # events are missing: ask for the whole list
            return
        for event in message.events[team_run.folded - message.first :]:
            self._fold(team_run, event)

    def _fold(self, team_run: TeamRun, event: PacketEvent | TeamMessageEvent) -> None:
        team_run.folded += 1
        at = event.at + self._clock_offset_s
        if isinstance(event, PacketEvent):
            self._note_finish(event.note)
            team_run.fold(PacketReceived(event.note, at))
            return
        message = self._verifier.verify(event.text)
        if isinstance(message, ReportMessage | Done) and message.team == team_run.team:
            team_run.fold(message_event(message, at))

    def _release_packets(self) -> None:
        """Take the notes that waited for the truth, which comes on another stream, or for a history."""
        if self.offer is None or not self._truth_complete or self._catching_up:
            return
        held, self._held_packets = self._held_packets, []
        for note, at in held:
            self._take_packet(note, at)

    def _take_packet(self, note: PacketNote, at: float) -> None:
        self._start()
        self._note_finish(note)
        for team_run in self.teams.values():
            if team_run.order is not None and team_run.ended is None:
                team_run.order.add_note(note, at)

    def _note_finish(self, note: PacketNote) -> None:
        if note.finish:
            self._finished_at = self._now()

    # --- the teams' runs ----------------------------------------------------------------------

    def _start(self) -> None:
        """The first packet has been sent: open the run of every team that is ready."""
        if not self._started:
            self._started = True
            for team in sorted(self._waiting):
                self._open(team)

    def _open(self, team: str) -> TeamRun:
        if team not in self.teams:
            when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            self._contest.runs.mkdir(parents=True, exist_ok=True)
            name = f"{self._track}-{team}-{when}-{self.run}.jsonl"
            self.teams[team] = self._team_run(team, RunLog(self._contest.runs / name), [])
            self._sink.team(team, self._track, "running")
        return self.teams[team]

    def _team_run(self, team: str, log: RunLog, past: list[dict[str, Any]]) -> TeamRun:
        assert self.offer is not None
        track = self._track
        return TeamRun(
            team,
            track,
            self._contest.rules(track),
            self._contest.limits,
            self._plan,
            log,
            self._now(),
            order=None if self._lockstep else self._realtime_order(past),
            publish=lambda event, verdicts, run: self._sink.event(
                team, track, event, verdicts, run
            ),
            past=past,
            pace=self.offer.pace,
            samples=total_samples(self._plan),
        )

    def _realtime_order(self, past: list[dict[str, Any]]) -> RealtimeOrder:
        assert self.offer is not None
        grace_s = self._contest.limits.grace_packets * self.offer.packet_s
        kinds = Counter(event["kind"] for event in past)
        return RealtimeOrder(grace_s, kinds["packet"], kinds["report"])

    def _settle(self, gone: list[str], now: float) -> None:
        """Fold what has become certain, and end the runs of teams that have left."""
        limit_s = self._contest.limits.silence_s
        for team_run in self.teams.values():
            team_run.settle(now)
            if team_run.ended is None and team_run.team in gone:
                team_run.leave("crashed", Reason("stream_lost"), now)
            is_late = self._finished_at is not None and now - self._finished_at > limit_s
            if team_run.ended is None and is_late:
                team_run.end("stopped", Reason("did_not_end"), now)
            if team_run.ended is not None and team_run.team not in self._closed_at:
                self._closed_at[team_run.team] = now
                why = team_run.why or team_run.detail
                self._sink.team(team_run.team, self._track, team_run.ended, why)

    # --- after a restart of the judge ---------------------------------------------------------

    def _resume_earlier(self) -> None:
        """Continue the logs that an earlier judge of this run has left."""
        for team, path, events in earlier_logs(self._contest.runs, self.run):
            self.teams[team] = self._team_run(team, RunLog(path, append=True), events)
        self._started = bool(self.teams)
        self._catching_up = any(team_run.ended is None for team_run in self.teams.values())
        if self._started and not self._catching_up:
            self._finished_at = self._now()

    def _end_catching_up(self, gone_at: float) -> None:
        """What teams sent while no judge was there counts as received when the last one was."""
        if not self._catching_up:
            return
        self._catching_up = False
        self._go_until = self._now() + GO_AGAIN_S
        held, self._held_messages = self._held_messages, []
        for message, at in held:
            self.receive(message, min(at, gone_at))

    # --- messages of the judge ----------------------------------------------------------------

    def _send_state(self, now: float) -> None:
        contest, run = self._contest.name, self.run
        if self.offer is None:
            self._send(JudgeReady(contest, run, []))
            return
        self._send_to_teams(now)
        if self._catching_up:
            self._send_ready()
            if self._can_receive():
                self._send(ReplayHistory(contest, run))
        elif now < self._go_until:
            self._send(Go(contest, run))
        elif not self._started:
            self._send_ready()
            if self._can_receive() and self._may_start(self._present_teams()):
                self._send(Go(contest, run))
        elif self._all_closed(now):
            # In real time others may join until the last packet; a lockstep replay has one team.
            self.is_over = self._finished_at is not None or self._lockstep

    def _send_to_teams(self, now: float) -> None:
        contest, run = self._contest.name, self.run
        for team in self._closed_at:
            self._send(Closed(contest, run, team, self.teams[team].ended or ""))
        for team_run in self.teams.values():
            if team_run.order is None:
                continue
            messages = team_run.order.messages
            if self._catching_up or (team_run.ended is None and messages.is_missing(now)):
                self._send(ResendResults(contest, run, team_run.team, messages.expected))

    def _send_ready(self) -> None:
        ready = self._can_receive()
        self._send(JudgeReady(self._contest.name, self.run, self._present_teams(), ready))

    def _can_receive(self) -> bool:
        """Whether something has arrived on both of the replay's streams."""
        return "" in self._welcomed and self._truth_probed

    def _present_teams(self) -> list[str]:
        return sorted(self._waiting | set(self.teams))

    def _all_closed(self, now: float) -> bool:
        """Whether every run has ended, and its team has had the time to learn of it."""
        ends = [self._closed_at.get(team, now) for team in self.teams]
        return bool(ends) and all(now - end > CLOSING_S for end in ends)

    # --- the end ------------------------------------------------------------------------------

    def _stop_all(self, why: Reason) -> None:
        """The replay has ended; the session goes on until the teams know that their runs are closed."""
        now = self._now()
        for team_run in self.teams.values():
            team_run.stop(why, now)
        self._finished_at = self._finished_at or now
        self.is_over = self.is_over or not self.teams

    def close(self) -> None:
        self._stop_all(Reason("judge_stopped"))
        self._control.close()
        self._truth.close()
