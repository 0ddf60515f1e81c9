"""The roll: the runs of all teams in one hearing, from the first word to the last log line."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from bci_stream.contest.contest import Contest
from bci_stream.judge.docket import Docket
from bci_stream.judge.log import RunLog
from bci_stream.judge.order import LockstepOrder, RealtimeOrder
from bci_stream.judge.resume import earlier_logs
from bci_stream.judge.team_run import TeamRun
from bci_stream.wire.messages import Done, Next, Offer, PacketNote, Report, Status, speed_of
from tracks.run import Run
from tracks.verdict import Verdict

CLOSING_S = 1.5
"""How long a judge says that a run is closed, so that its team hears it and may leave."""


class Sink(Protocol):
    """Where the judge shows what it has judged (a board, a progress bar, nothing)."""

    def team(
        self, name: str, track: str, status: str = ..., reason: str = ..., lag_s: float = ...
    ) -> None: ...
    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: list[Verdict], run: Run
    ) -> None: ...


class Roll:
    """Opens a team's run, feeds all of them, and knows which are closed."""

    def __init__(
        self,
        contest: Contest,
        offer: Offer,
        docket: Docket,
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

    def message(self, message: Next | Report | Done, at: float) -> None:
        """What a team says of its run; of one that is not here nothing is known."""
        if message.team in self.runs or message.team in self.waiting:
            self.open(message.team).message(message, at)

    def asked(self, team: str, packet: int, number: int, at: float) -> None:
        """Lockstep: the team asked for this packet, and was sent it."""
        asked = Next(self._contest.name, self._offer.run, team, 0, packet=packet, n=number)
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
                team_run.leave("crashed", "its results stream ended without a word", now)
            if team_run.ended is None and finished_at is not None and now - finished_at > limit_s:
                team_run.end("stopped", "it did not end by itself after the last packet", now)
            self._close(team_run, now)

    def _close(self, team_run: TeamRun, now: float) -> None:
        if team_run.ended is not None and team_run.team not in self._closed_at:
            self._closed_at[team_run.team] = now
            self._sink.team(team_run.team, self._offer.track, team_run.ended, team_run.detail)

    def stop(self, why: str) -> None:
        for team_run in self.runs.values():
            team_run.stop(why, self._now())

    def all_heard_their_end(self, now: float) -> bool:
        return bool(self.runs) and all(
            now - self._closed_at.get(team, now) > CLOSING_S for team in self.runs
        )
