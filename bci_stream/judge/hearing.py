"""A hearing: one run of one replay before the judge, with all its teams."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError, WireError
from bci_stream.judge.docket import Docket
from bci_stream.judge.log import RunLog
from bci_stream.judge.order import LockstepOrder, RealtimeOrder
from bci_stream.judge.resume import earlier_logs
from bci_stream.judge.team_run import TeamRun
from bci_stream.wire import names
from bci_stream.wire.ear import Ear
from bci_stream.wire.messages import (
    Behind,
    Catch,
    Closed,
    ControlMessage,
    Done,
    Go,
    Message,
    Next,
    Offer,
    PacketNote,
    Ready,
    Recall,
    Report,
    ResultsMessage,
    Retold,
    RetoldAll,
    Seated,
    Status,
    Stopped,
    TruthComplete,
    TruthNote,
    TruthProbe,
    Welcome,
    read_control,
    read_truth,
    speed_of,
)
from bci_stream.wire.sealing import unseal
from bci_stream.wire.transport import Found, TextInlet, Transport
from tracks import TRACKS
from tracks.run import Run
from tracks.verdict import Verdict

SAY_EVERY_S = 0.25
SILENCE_S = 30.0
CLOSING_S = 1.5
"""How long a judge says that a run is closed, so that its team hears it and may leave."""

GO_AGAIN_S = 1.0
"""How long a judge that was started again says go, so that a replay that held back hears it."""


class Sink(Protocol):
    """Where the judge shows what it has judged (a board, a progress bar, nothing)."""

    def team(
        self, name: str, track: str, status: str = ..., reason: str = ..., lag_s: float = ...
    ) -> None: ...
    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: list[Verdict], run: Run
    ) -> None: ...


class Hearing:
    """Follows a replay from its first offer to the end of its last team."""

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        control: Found,
        truth: Found,
        say: Callable[[Message], None],
        sink: Sink,
        expected: Callable[[list[str]], bool],
        rules: Callable[[str], dict[str, Any]],
    ) -> None:
        self._transport = transport
        self._contest = contest
        self._say = say
        self._sink = sink
        self._expected = expected
        self._rules = rules
        self._control: TextInlet = transport.text_inlet(control, 5.0)
        self._truth: TextInlet = transport.text_inlet(truth, 5.0)
        self._key = contest.keys.contest_key()
        self._offset_s = self._control.clock_offset_s()
        self.name = names.owner(control.source_id)
        self.offer: Offer | None = None
        self.teams: dict[str, TeamRun] = {}
        self.over = False
        self._ear: Ear | None = None
        self._docket = Docket()
        self._ready: set[str] = set()
        self._proven: set[str] = set()
        self._truth_complete = False
        self._early: list[tuple[PacketNote, float]] = []
        self._started = False
        self._went = False
        self._said_at = 0.0
        self._heard_at = transport.now()
        self._closed_at: dict[str, float] = {}
        self._finished_at: float | None = None
        self._catching_up = False
        self._held_results: list[tuple[str, float]] = []
        self._held_notes: list[tuple[PacketNote, float]] = []
        self._go_until = 0.0
        self.complaints: Counter[str] = Counter()

    @property
    def run(self) -> str:
        return self.offer.run if self.offer else ""

    @property
    def _lockstep(self) -> bool:
        return self.offer is not None and self.offer.pace == "lockstep"

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self._ear.dropped) if self._ear else {}

    # --- one round ----------------------------------------------------------------------------

    def attend(self, results: list[tuple[str, float]], gone: list[str]) -> None:
        """Take what has come: the teams' signed texts with their arrival times, and who has gone."""
        self._held_results += results
        self._take_truth()
        if not self._catching_up:
            held, self._held_results = self._held_results, []
            self._take_results(held)
        self._take_control()
        now = self._transport.now()
        for team_run in self.teams.values():
            team_run.settle(now)
        self._take_leave(gone, now)
        self._speak(now)

    def _take_results(self, results: list[tuple[str, float]]) -> None:
        if self._ear is None:
            return
        for text, at in results:
            message = self._ear.hear(text)
            if message is not None:
                self._take_message(message, at)

    def _take_message(self, message: ResultsMessage, at: float) -> None:
        if isinstance(message, Ready) and message.team not in self.teams:
            if message.team not in self._ready:
                self._sink.team(message.team, self._track(), "waiting")
            self._ready.add(message.team)
            if self._started:
                self._open_run(message.team)
        elif isinstance(message, Behind):
            status = "lagging" if message.seconds > 0 else "running"
            self._sink.team(message.team, self._track(), status, lag_s=message.seconds)
        elif isinstance(message, Next | Report | Done):
            team_run = self.teams.get(message.team)
            if team_run is None and message.team in self._ready:
                team_run = self._open_run(message.team)
            if team_run is not None:
                team_run.message(message, at)

    def _take_truth(self) -> None:
        for text, _ in self._pull(self._truth):
            if self.offer is None:
                continue  # sealed for a run that is not known yet; it is said again
            try:
                message = read_truth(unseal(text, self._key, self.run))
            except WireError as error:
                self.complaints[str(error)] += 1
                continue
            if isinstance(message, TruthProbe):
                self._proven.add("truth")
            elif isinstance(message, TruthNote):
                self._docket.add(message)
            elif isinstance(message, TruthComplete):
                self._truth_complete = True
            elif isinstance(message, Retold):
                self._take_note(message.note, message.stamp)
            elif isinstance(message, RetoldAll):
                self._caught_up(message.gone_at + self._offset_s)
        if self._truth_complete and self._early:
            early, self._early = self._early, []
            for note, stamp in early:
                self._take_note(note, stamp)

    def _caught_up(self, gone_at: float) -> None:
        """What the teams said while no judge was there counts as said when the last one was."""
        self._catching_up = False
        self._go_until = self._transport.now() + GO_AGAIN_S
        self._held_results = [(text, min(at, gone_at)) for text, at in self._held_results]
        self._take_held_notes()

    def _take_held_notes(self) -> None:
        for note, stamp in self._held_notes:
            self._take_note(note, stamp)
        self._held_notes.clear()

    def _take_control(self) -> None:
        for text, stamp in self._pull(self._control):
            try:
                message = read_control(text)
            except WireError as error:
                self.complaints[str(error)] += 1
                continue
            self._heard_at = self._transport.now()
            self._take_word(message, stamp)

    def _take_word(self, message: ControlMessage, stamp: float) -> None:
        if isinstance(message, Offer) and self.offer is None:
            self._take_offer(message)
        elif isinstance(message, Welcome) and message.team == "":
            self._proven.add("control")
        elif isinstance(message, PacketNote) and (self._catching_up or self.offer is None):
            self._held_notes.append((message, stamp))  # those that were missed come first
        elif isinstance(message, PacketNote):
            self._take_note(message, stamp)
        elif isinstance(message, Stopped):
            self._stop_all(f"the replay stopped: {message.reason}")
        elif isinstance(message, Status) and message.state != "alive":
            for team_run in self.teams.values():
                team_run.remark(message, stamp + self._offset_s)
                self._sink.team(
                    team_run.team, self._track(), "running", f"{message.state} {message.detail}"
                )

    def _take_offer(self, offer: Offer) -> None:
        if offer.track not in TRACKS:
            why = (
                f"it plays track {offer.track!r}, which has no rules"
                if offer.track
                else "it plays no track"
            )
            self.complaints[f"not judged: {why}; tracks are {', '.join(TRACKS)}"] += 1
            self.over = True
            return
        self.offer = offer
        self._ear = Ear(self._contest.name, offer.run, self._contest.token)
        self._take_up_earlier(offer.run)
        if not self._catching_up:
            self._take_held_notes()

    def _take_up_earlier(self, run: str) -> None:
        """This judge was started again: go on with the logs of the one before it."""
        for team, path, events in earlier_logs(self._contest.runs, run):
            self.teams[team] = self._team_run(team, RunLog(path, go_on=True), events)
            self._ready.add(team)
        self._started = bool(self.teams)
        self._catching_up = any(team_run.ended is None for team_run in self.teams.values())
        if self._started and not self._catching_up:
            self._finished_at = self._transport.now()

    def _take_note(self, note: PacketNote, stamp: float) -> None:
        if not self._truth_complete:
            self._early.append((note, stamp))  # truth and packets are two streams: truth goes first
            return
        if not self._started:
            self._started = True
            for team in sorted(self._ready):
                self._open_run(team)
        for team_run in self.teams.values():
            team_run.note(note, stamp + self._offset_s)
        if note.finish:
            self._finished_at = self._transport.now()

    def _pull(self, inlet: TextInlet) -> list[tuple[str, float]]:
        try:
            return inlet.pull(0.0)
        except LostError:
            self._stop_all(f"replay {self.name!r} is gone")
            return []

    # --- teams --------------------------------------------------------------------------------

    def _track(self) -> str:
        return self.offer.track if self.offer else ""

    def _open_run(self, team: str) -> TeamRun:
        if team not in self.teams:
            when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            self._contest.runs.mkdir(parents=True, exist_ok=True)
            name = f"{self._track()}-{team}-{when}-{self.run}.jsonl"
            self.teams[team] = self._team_run(team, RunLog(self._contest.runs / name), [])
            self._sink.team(team, self._track(), "running")
        return self.teams[team]

    def _team_run(self, team: str, log: RunLog, past: list[dict[str, Any]]) -> TeamRun:
        track = self._track()
        return TeamRun(
            team,
            track,
            self._rules(track),
            self._contest.limits,
            self._docket,
            self._order(sum(event["kind"] == "packet" for event in past)),
            log,
            self._transport.now(),
            lambda event, verdicts, run: self._sink.event(team, track, event, verdicts, run),
            past,
            pace=self.offer.pace if self.offer else "",
            samples=self._docket.n_samples(),
        )

    def _order(self, received: int) -> LockstepOrder | RealtimeOrder:
        assert self.offer is not None
        if self._lockstep:
            return LockstepOrder(received)
        packet_s = self.offer.packet_samples / self.offer.rate / speed_of(self.offer.pace)
        return RealtimeOrder(self._contest.limits.grace_packets * packet_s, received)

    def _take_leave(self, gone: list[str], now: float) -> None:
        for team_run in self.teams.values():
            if team_run.ended is None and team_run.team in gone:
                team_run.leave("crashed", "its results stream ended without a word", now)
            if team_run.ended is None and self._waited_long_after_finish(now):
                team_run.end("stopped", "it did not end by itself after the last packet", now)
            if team_run.ended is not None and team_run.team not in self._closed_at:
                self._closed_at[team_run.team] = now
                self._sink.team(team_run.team, self._track(), team_run.ended, team_run.detail)
        if now - self._heard_at > SILENCE_S:
            self._stop_all(f"no word from replay {self.name!r} for {SILENCE_S:g} s")

    def _waited_long_after_finish(self, now: float) -> bool:
        limit_s = self._contest.limits.silence_s
        return self._finished_at is not None and now - self._finished_at > limit_s

    def _stop_all(self, why: str) -> None:
        """The replay has ended; the teams still have to hear that their runs are closed."""
        now = self._transport.now()
        for team_run in self.teams.values():
            team_run.stop(why, now)
        self._finished_at = self._finished_at or now
        self.over = self.over or not self.teams

    # --- what the judge says ------------------------------------------------------------------

    def _speak(self, now: float) -> None:
        if now - self._said_at < SAY_EVERY_S:
            return
        self._said_at = now
        contest = self._contest.name
        for team in self._closed_at:
            self._say(Closed(contest, self.run, team, self.teams[team].ended or ""))
        for team_run in self.teams.values():
            if self._catching_up or (team_run.inbox.waits and team_run.ended is None):
                self._say(Recall(contest, self.run, team_run.team, team_run.inbox.expected))
        if self._catching_up and self._proven >= {"control", "truth"}:
            self._say(Seated(contest, self.run, sorted(self._ready), True))
            self._say(Catch(contest, self.run, 0))
        elif now < self._go_until:
            self._say(Go(contest, self.run))
        elif self._catching_up:
            self._say(Seated(contest, self.run, sorted(self._ready)))
        if not self._started:
            ready = self._proven >= {"control", "truth"}
            self._say(Seated(contest, self.run, sorted(self._ready), ready))
            if ready and self._expected(sorted(self._ready)):
                self._say(Go(contest, self.run))
        elif (
            not self._catching_up
            and self.teams
            and all(now - self._closed_at.get(t, now) > CLOSING_S for t in self.teams)
        ):
            # In real time others may still join, until the last packet; a lockstep replay is one team's.
            self.over = self._finished_at is not None or self._lockstep

    def close(self) -> None:
        self._stop_all("the judge was stopped")
        self._control.close()
        self._truth.close()
