"""A view is one team's run as the board shows it: a fold of the run's events and verdicts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bci_stream.leaderboard.embargo import Settled, settle, settles
from bci_stream.leaderboard.latency import Latencies, elapsed
from bci_stream.leaderboard.ranking import FINAL, LeaderboardRow
from bci_stream.leaderboard.timeline import TrialTimeline
from bci_stream.leaderboard.verdict_rows import LONGEST_REASON, Confusion, brief, verdict_row
from tracks.common.reasons import Reason
from tracks.common.verdicts import RunStanding, Verdict
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run

POINTS_SHOWN: Final = 400


def _last_traces(run: Run) -> dict[str, Any] | None:
    """The traces of the last closed trial, thinned to what a screen can show; None if there are none."""
    traces = run.sessions[-1].referee.last_traces() if run.sessions else None
    if traces is None:
        return None
    every = max(1, -(-len(traces.measured) // POINTS_SHOWN))
    return {
        "joints": traces.names,
        "rate": traces.rate / every,
        "truth": traces.measured[::every].round(2).tolist(),
        "reported": traces.reported[::every].round(2).tolist(),
    }


HISTORY_KEPT: Final = 400
TRIALS_KEPT: Final = 5000


class TeamView:
    """What is known of one team on one track. Trials enter when they are closed, never before."""

    def __init__(self, team: str, track: str) -> None:
        self.team = team
        self.track = track
        self.status = "waiting"
        self.reason = ""
        self.reasons: list[dict[str, Any]] = []
        self.lag_s = 0.0
        self.pace = ""
        self.lane = TrialTimeline(track)
        self.history: list[tuple[float, float]] = []
        self._trials: list[dict[str, Any]] = []
        self._standing: RunStanding | None = None
        self._latencies = Latencies()
        self._confusion = Confusion()
        self._classes = tuple(TRACKS[track].classes.values())
        self._shown_angles: dict[str, Any] | None = None
        self._sessions: list[dict[str, Any]] = []
        self._rate = 1.0
        self._time_s = 0.0
        self._complete = False

    def set_status(self, status: str, reason: str | Reason = "", lag_s: float = 0.0) -> None:
        """reason: a code, or free text."""
        self.status, self.lag_s = status, lag_s
        self.reason = brief(describe(reason), LONGEST_REASON)
        self.reasons = [reason.to_json()] if isinstance(reason, Reason) else []

    def take(self, event: dict[str, Any], verdicts: Sequence[Verdict], run: Run) -> Settled | None:
        """The next event of the log, and what Run.feed said to it.

        What it settled is given back, to be shown (`show`) as soon as it may be.
        """
        self._see(event)
        if not settles(event, verdicts):
            return None
        return settle(event, verdicts, run, _last_traces(run), complete=self._complete)

    def _see(self, event: dict[str, Any]) -> None:
        """What is no secret: where the team is, how fast it reports, what it is doing."""
        match event["kind"]:
            case "packet":
                self.lane.packet(event["n"], event["triggers"])
                self._time_s += event["n"] / self._rate
                self._complete = bool(event.get("finish"))
            case "report":
                self.lane.report()
                if (elapsed_s := elapsed(event)) is not None:
                    self._latencies.add(elapsed_s)
            case "run":
                self.pace = str(event.get("pace", "realtime"))
            case "session":
                self._begin(str(event["subject"]), float(event["rate"]))
            case "end":
                self.set_status(str(event["reason"]), str(event.get("detail", "")))
                self.reasons = [event["why"]] if isinstance(event.get("why"), dict) else []

    def _begin(self, subject: str, rate: float) -> None:
        self._rate = rate
        self.lane.begin(brief(subject), rate)
        if self.status not in FINAL:
            self.set_status("running")

    def show(self, settled: Settled) -> list[dict[str, Any]]:
        """Show what closed trials settled; gives their records."""
        records = [verdict_row(verdict, self._classes) for verdict in settled.verdicts]
        self._trials = (self._trials + records)[-TRIALS_KEPT:]
        for verdict in settled.verdicts:
            self._confusion.add(verdict)
        self._standing = settled.standing
        self._shown_angles = settled.angles or self._shown_angles
        if settled.result is not None:
            self.ends(settled.result)
        if self.status == "running":
            # A note on the source ("resumed") is shown until the next trial closes.
            self.set_status("running", lag_s=self.lag_s)
        self._add_point(settled.t)
        return records

    def ends(self, result: dict[str, Any]) -> None:
        """Take the final scores; they are those of `bci-judge score`, bit for bit."""
        self._sessions = result["sessions"]
        if self._standing is not None:
            self._standing = replace(self._standing, score=result["score"])

    def _add_point(self, t: float | None) -> None:
        """The score over time, by the judge's clock where the log has it; thinned when long."""
        score = self._standing.score if self._standing is not None else 0.0
        self.history.append((round(self._time_s if t is None else t, 2), score))
        if len(self.history) > HISTORY_KEPT:
            self.history = [*self.history[:-1:2], self.history[-1]]

    def row(self) -> LeaderboardRow:
        """The team's row, still without its rank."""
        row = LeaderboardRow(
            self.team,
            self.track,
            unit=TRACKS[self.track].unit,
            latency_p50_s=self._latencies.percentile(0.50),
            latency_p99_s=self._latencies.percentile(0.99),
            status=self.status,
            lag_s=self.lag_s,
            reason=self.reason,
            reasons=self.reasons,
        )
        standing = self._standing
        if standing is None:
            return row
        return replace(
            row,
            score=standing.score,
            accuracy=standing.accuracy,
            used=standing.mean_used if TRACKS[self.track].waits else None,
            used_unit=standing.used_unit,
            trials=standing.trials,
            right=standing.right,
        )

    def detail(self) -> dict[str, Any]:
        """What the team's own page shows."""
        return {
            "history": list(self.history),
            "trials": self._trials,
            "confusion": self._confusion.table(self._classes),
            "angles": self._shown_angles,
            "sessions": self._sessions,
        }
