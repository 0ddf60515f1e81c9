"""A hearing: one run of one replay before the judge, with all its teams."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import structs

from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError, WireError
from bci_stream.judge.ordering import LockstepOrder, RealtimeOrder
from bci_stream.judge.team_run import SessionPlan, TeamRun
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
    speed_of,
)
from bci_stream.wire.transport import FoundStream, TextInlet, Transport
from bci_stream.wire.verify import MessageVerifier
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.registry import TRACKS
from tracks.run import Run

OPEN_S = 5.0


class ReplayStreams:
    """Reads both streams. `complaints` counts what could not be read; `gone`: the replay has ended."""

    def __init__(
        self, transport: Transport, control: FoundStream, truth: FoundStream, key: bytes
    ) -> None:
        self._transport = transport
        self._key = key
        self._control = transport.text_inlet(control, OPEN_S)
        self._truth = transport.text_inlet(truth, OPEN_S)
        self.offset_s = self._control.clock_offset_s()
        self.replay = names.owner(control.source_id)
        self.heard_at = transport.now()
        self.gone = False
        self.complaints: Counter[str] = Counter()

    def words(self) -> Iterator[tuple[ControlMessage, float]]:
        """What has come on the control stream, with its stamps in the replay's clock."""
        for text, stamp in self._pull(self._control):
            try:
                message = read_control(text)
            except WireError as error:
                self.complaints[str(error)] += 1
                continue
            self.heard_at = self._transport.now()
            yield message, stamp

    def truth(self, run: str) -> Iterator[TruthMessage]:
        """What has come on the truth stream; sealed for this run, which is empty while it is not known."""
        for text, _ in self._pull(self._truth):
            if not run:
                continue  # it is said again
            try:
                yield read_truth(unseal(text, self._key, run))
            except WireError as error:
                self.complaints[str(error)] += 1

    def _pull(self, inlet: TextInlet) -> list[tuple[str, float]]:
        try:
            return inlet.pull(0.0)
        except LostError:
            self.gone = True
            return []

    def close(self) -> None:
        self._control.close()
        self._truth.close()


CLOSING_S = 1.5
"""How long a judge says that a run is closed, so that its team hears it and may leave."""


class Sink(Protocol):
    """Where the judge shows what it has judged (a board, a progress bar, nothing)."""

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


class TeamRuns:
    """Opens a team's run, feeds all of them, and knows which are closed."""

    def __init__(
        self,
        contest: Contest,
        offer: Offer,
        docket: SessionPlan,
        sink: Sink,
        rules: dict[str, Any],
        now: Callable[[], float],
    ) -> None:
        self._contest = contest
        self._offer = offer
        self._docket = docket
        self._sink = sink
        self._rules = rules
        self._now = now
        self._closed_at: dict[str, float] = {}
        self.runs: dict[str, TeamRun] = {}
        self.waiting: set[str] = set()

    @property
    def teams(self) -> list[str]:
        """Who is here, with a run or still without."""
        return sorted(self.waiting | set(self.runs))

    @property
    def closed(self) -> dict[str, str]:
        """The teams whose runs are over and logged, and how they ended."""
        return {team: self.runs[team].ended or "" for team in self._closed_at}

    def arrive(self, team: str) -> None:
        """A team is ready; its run is opened with the first packet."""
        if team not in self.waiting:
            self._sink.team(team, self._offer.track, "waiting")
            self.waiting.add(team)

    # --- opening ------------------------------------------------------------------------------

    def take_up_earlier(self) -> None:
        """This judge was started again: go on with the logs of the one before it."""
        for team, path, events in earlier_logs(self._contest.runs, self._offer.run):
            self.runs[team] = self._team_run(team, RunLog(path, go_on=True), events)

    def open_all(self) -> None:
        for team in self.teams:
            self.open(team)

    def open(self, team: str) -> TeamRun:
        if team not in self.runs:
            when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            self._contest.runs.mkdir(parents=True, exist_ok=True)
            name = f"{self._offer.track}-{team}-{when}-{self._offer.run}.jsonl"
            self.runs[team] = self._team_run(team, RunLog(self._contest.runs / name), [])
            self._sink.team(team, self._offer.track, "running")
        return self.runs[team]

    def _team_run(self, team: str, log: RunLog, past: list[dict[str, Any]]) -> TeamRun:
        track = self._offer.track
        return TeamRun(
            team,
            track,
            self._rules,
            self._contest.limits,
            self._docket,
            self._order(sum(event["kind"] == "packet" for event in past)),
            log,
            self._now(),
            lambda event, verdicts, run: self._sink.event(team, track, event, verdicts, run),
            past,
            pace=self._offer.pace,
            samples=self._docket.n_samples(),
        )

    def _order(self, received: int) -> LockstepOrder | RealtimeOrder:
        offer = self._offer
        if offer.lockstep:
            return LockstepOrder(received)
        packet_s = offer.packet_samples / offer.rate / speed_of(offer.pace)
        return RealtimeOrder(self._contest.limits.grace_packets * packet_s, received)

    # --- feeding ------------------------------------------------------------------------------

    def note(self, note: PacketNote, at: float) -> None:
        for team_run in self.runs.values():
            team_run.note(note, at)

    def message(self, message: PacketRequest | ReportMessage | Done, at: float) -> None:
        """What a team says of its run; of one that is not here nothing is known."""
        if message.team in self.runs or message.team in self.waiting:
            self.open(message.team).message(message, at)

    def asked(self, team: str, packet: int, number: int, at: float) -> None:
        """Lockstep: the team asked for this packet, and was sent it."""
        asked = PacketRequest(self._contest.name, self._offer.run, team, 0, packet=packet, n=number)
        self.message(asked, at)

    def remark(self, status: Status, at: float) -> None:
        for team_run in self.runs.values():
            team_run.remark(status, at)
            self._sink.team(
                team_run.team, self._offer.track, "running", f"{status.state} {status.detail}"
            )

    def lag(self, team: str, seconds: float) -> None:
        status = "lagging" if seconds > 0 else "running"
        self._sink.team(team, self._offer.track, status, lag_s=seconds)

    def settle(self, gone: list[str], finished_at: float | None, now: float) -> None:
        """Write what has become certain, and close the runs of teams that have left."""
        limit_s = self._contest.limits.silence_s
        for team_run in self.runs.values():
            team_run.settle(now)
            if team_run.ended is None and team_run.team in gone:
                team_run.leave("crashed", Reason("stream_lost"), now)
            if team_run.ended is None and finished_at is not None and now - finished_at > limit_s:
                team_run.end("stopped", Reason("did_not_end"), now)
            self._close(team_run, now)

    def _close(self, team_run: TeamRun, now: float) -> None:
        if team_run.ended is not None and team_run.team not in self._closed_at:
            self._closed_at[team_run.team] = now
            why = team_run.why or team_run.detail
            self._sink.team(team_run.team, self._offer.track, team_run.ended, why)

    def stop(self, why: Reason) -> None:
        for team_run in self.runs.values():
            team_run.stop(why, self._now())

    def all_heard_their_end(self, now: float) -> bool:
        return bool(self.runs) and all(
            now - self._closed_at.get(team, now) > CLOSING_S for team in self.runs
        )


SAY_EVERY_S = 0.25
SILENCE_S = 30.0

GO_AGAIN_S = 1.0
"""How long a judge that was started again says go, so that a replay that held back hears it."""


class ReplaySession:
    """Follows a replay from its first offer to the end of its last team."""

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        control: FoundStream,
        truth: FoundStream,
        say: Callable[[Message], None],
        sink: Sink,
        expected: Callable[[list[str]], bool],
        rules: Callable[[str], dict[str, Any]],
    ) -> None:
        self._now = transport.now
        self._contest = contest
        self._say = say
        self._sink = sink
        self._expected = expected
        self._rules = rules
        self._testimony = ReplayStreams(transport, control, truth, contest.keys.contest_key())
        self.complaints = self._testimony.complaints
        self.name = self._testimony.replay
        self.offer: Offer | None = None
        self.over = False
        self._docket = SessionPlan()
        self._ear: MessageVerifier | None = None
        self._scribe: MessageVerifier | None = None  # lockstep: for what the replay wrote down
        self._roll: TeamRuns | None = None
        self._truth_heard = False
        self._welcomed: set[str] = set()  # "" is this judge
        self._truth_complete = False
        self._started = False
        self._finished_at: float | None = None
        self._said_at = 0.0
        # A judge that was started again: what comes before it has caught up waits here.
        self._catching_up = False
        self._go_until = 0.0
        self._held_results: list[tuple[str, float]] = []
        self._held: list[PacketEvent] = []
        self._early: list[PacketEvent] = []

    @property
    def run(self) -> str:
        return self.offer.run if self.offer else ""

    @property
    def _lockstep(self) -> bool:
        return self.offer is not None and self.offer.lockstep

    @property
    def _hears_all(self) -> bool:
        """Whether both of the replay's streams have been proven."""
        return "" in self._welcomed and self._truth_heard

    @property
    def times_arrivals(self) -> bool:
        """Whether it matters when a message arrives here, as it does in real time."""
        return self.offer is not None and not self._lockstep and not self.over

    @property
    def teams(self) -> dict[str, TeamRun]:
        return self._roll.runs if self._roll else {}

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self._ear.dropped) if self._ear else {}

    # --- one round ----------------------------------------------------------------------------

    def attend(self, results: list[tuple[str, float]], gone: list[str]) -> None:
        """Take what has come: the teams' signed texts with their arrival times, and who has gone."""
        self._held_results += results
        self._take_truth()
        self._take_results()
        for message, stamp in self._testimony.words():
            self._take_word(message, stamp)
        if self._testimony.gone:
            self._stop_all(Reason("replay_gone", replay=self.name))
        now = self._now()
        if self._roll is not None:
            self._roll.settle(gone, self._finished_at, now)
        if now - self._testimony.heard_at > SILENCE_S:
            self._stop_all(Reason("replay_silent", replay=self.name, silent_s=SILENCE_S))
        self._speak(now)

    def _take_results(self) -> None:
        """What the teams said; one that said it before the offer says it again."""
        if self._catching_up:
            return
        held, self._held_results = self._held_results, []
        if self._ear is None or self._roll is None:
            return
        for text, at in held:
            message = self._ear.hear(text)
            if message is not None:
                self._take_message(self._roll, message, at)

    def _take_message(self, roll: TeamRuns, message: ResultsMessage, at: float) -> None:
        team = message.team
        if isinstance(message, Ready) and team not in roll.runs:
            if self._lockstep and team not in self._welcomed:
                return  # a lockstep replay is one team's
            roll.arrive(team)
            if self._started:
                roll.open(team)
        elif isinstance(message, Behind):
            roll.lag(team, message.seconds)
        elif isinstance(message, PacketRequest | ReportMessage | Done) and not self._lockstep:
            roll.message(message, at)

    def _take_truth(self) -> None:
        for message in self._testimony.truth(self.run):
            self._take_sealed(message)
        if self._truth_complete and self._early:
            early, self._early = self._early, []
            for sent in early:
                self._take_sent(sent)

    def _take_sealed(self, message: TruthMessage) -> None:
        if isinstance(message, TruthProbe):
            self._truth_heard = True
        elif isinstance(message, TruthNote):
            self._docket.add(message)
        elif isinstance(message, TruthComplete):
            self._truth_complete = True
        elif isinstance(message, RunEvents):
            for number, event in enumerate(message.events, message.first):
                self._take_event(message.team, number, event)
        elif isinstance(message, HistoryComplete):
            self._caught_up(message.gone_at + self._testimony.offset_s)

    def _take_word(self, message: ControlMessage, stamp: float) -> None:
        if isinstance(message, Offer) and self.offer is None:
            self._take_offer(message)
        elif isinstance(message, Welcome):
            self._welcomed.add(message.team)
        elif isinstance(message, PacketNote) and (self._catching_up or self.offer is None):
            self._held.append(
                PacketEvent(message, stamp, stamp)
            )  # those that were missed come first
        elif isinstance(message, PacketNote):
            self._take_sent(PacketEvent(message, stamp, stamp))
        elif isinstance(message, Stopped):
            self._stop_all(Reason("replay_stopped", detail=message.reason))
        elif isinstance(message, Status) and message.state != "alive" and self._roll is not None:
            self._roll.remark(message, stamp + self._testimony.offset_s)

    def _take_offer(self, offer: Offer) -> None:
        if offer.track not in TRACKS:
            why = f"track {offer.track!r}, which has no rules" if offer.track else "no track"
            self.complaints[f"not judged: it plays {why}; tracks are {', '.join(TRACKS)}"] += 1
            self.over = True
            return
        self.offer = offer
        self._ear = MessageVerifier(self._contest.name, offer.run, self._contest.token)
        if self._lockstep:
            self._scribe = MessageVerifier(self._contest.name, offer.run, self._contest.token)
        self._roll = TeamRuns(self._contest, offer, self._docket, self._sink,
                          self._rules(offer.track), self._now)  # fmt: skip
        self._take_up_earlier(self._roll)
        if not self._catching_up:
            self._take_held()

    def _take_sent(self, sent: PacketEvent) -> None:
        if not self._truth_complete or self._roll is None:
            self._early.append(sent)  # two streams: truth goes first
            return
        if not self._started:
            self._started = True
            self._roll.open_all()
        self._roll.note(sent.note, sent.stamp + self._testimony.offset_s)
        if sent.note.finish:
            self._finished_at = self._now()

    def _take_event(self, team: str, number: int, event: PacketEvent | TeamMessageEvent) -> None:
        """What the replay tells; in lockstep it is the scribe of what the team asked for and said."""
        if isinstance(event, PacketEvent):
            self._take_sent(event)
        if self._scribe is None or self._roll is None:
            return
        at = event.at + self._testimony.offset_s
        if isinstance(event, PacketEvent):
            self._roll.asked(team, event.note.i, number, at)
        else:
            message = self._scribe.hear(event.text)
            if isinstance(message, ReportMessage | Done) and message.team == team:
                self._roll.message(structs.replace(message, n=number), at)

    # --- a judge that was started again -------------------------------------------------------

    def _take_up_earlier(self, roll: TeamRuns) -> None:
        roll.take_up_earlier()
        self._started = bool(roll.runs)
        self._catching_up = any(team_run.ended is None for team_run in roll.runs.values())
        if self._started and not self._catching_up:
            self._finished_at = self._now()

    def _caught_up(self, gone_at: float) -> None:
        """What the teams said while no judge was there counts as said when the last one was."""
        self._catching_up = False
        self._go_until = self._now() + GO_AGAIN_S
        self._held_results = [(text, min(at, gone_at)) for text, at in self._held_results]
        self._take_held()

    def _take_held(self) -> None:
        held, self._held = self._held, []
        for sent in held:
            self._take_sent(sent)

    # --- what the judge says ------------------------------------------------------------------

    def _speak(self, now: float) -> None:
        if now - self._said_at < SAY_EVERY_S:
            return
        self._said_at = now
        if self._roll is None:
            self._say(JudgeReady(self._contest.name, self.run, []))
            return
        self._speak_to_teams(self._roll, now)
        if self._catching_up or now < self._go_until:
            self._speak_again(self._roll.teams)
        elif not self._started:
            self._speak_first(self._roll.teams)
        elif self._roll.all_heard_their_end(now):
            # In real time others may still join, until the last packet; a lockstep replay is one team's.
            self.over = self._finished_at is not None or self._lockstep

    def _speak_to_teams(self, roll: TeamRuns, now: float) -> None:
        contest = self._contest.name
        for team, ending in roll.closed.items():
            self._say(Closed(contest, self.run, team, ending))
        for team_run in roll.runs.values() if not self._lockstep else ():
            if self._catching_up or (team_run.ended is None and team_run.inbox.misses(now)):
                self._say(ResendResults(contest, self.run, team_run.team, team_run.inbox.expected))

    def _speak_first(self, teams: list[str]) -> None:
        ready = self._hears_all
        self._say(JudgeReady(self._contest.name, self.run, teams, ready))
        if ready and self._expected(teams):
            self._say(Go(self._contest.name, self.run))

    def _speak_again(self, teams: list[str]) -> None:
        """Until the replay has told all that was missed; then that it may go on."""
        if not self._catching_up:
            self._say(Go(self._contest.name, self.run))
            return
        ready = self._hears_all
        self._say(JudgeReady(self._contest.name, self.run, teams, ready))
        if ready:
            self._say(ReplayHistory(self._contest.name, self.run))

    # --- the end ------------------------------------------------------------------------------

    def _stop_all(self, why: Reason) -> None:
        """The replay has ended; the teams still have to hear that their runs are closed."""
        if self._roll is not None:
            self._roll.stop(why)
        self._finished_at = self._finished_at or self._now()
        self.over = self.over or not self.teams

    def close(self) -> None:
        self._stop_all(Reason("judge_stopped"))
        self._testimony.close()
