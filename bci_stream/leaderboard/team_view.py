"""What the leaderboard shows of one team: a fold of its run's events and verdicts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from bci_stream.leaderboard.embargo import ClosedTrials
from bci_stream.leaderboard.ranking import FINAL, LeaderboardRow
from bci_stream.leaderboard.verdict_rows import (
    LONGEST_REASON,
    Confusion,
    TrialPlace,
    short_text,
    verdict_row,
)
from tracks.common.codes import BLOCK_START, BlockCounter
from tracks.common.reasons import Reason
from tracks.common.verdicts import RunStanding, Verdict
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run

HISTORY_KEPT: Final = 400
TRIALS_KEPT: Final = 5000
TRACE_ROWS_SHOWN: Final = 400
MARKS_KEPT: Final = 96
"""Triggers and reports on a time line."""

NOT_AHEAD: Final = ("packet", "report", "outage", "void")
"""Lines after which no trial is closed that other teams have not received: the last two revise
verdicts only."""

LEAST_LATENCY_S: Final = 1e-6
BIN_RATIO: Final = 1.01
"""Each bin of latencies is 1 % wide, so a percentile is right to half a percent."""

_LOG_BIN_RATIO: Final = math.log(BIN_RATIO)

Point = tuple[float, float]
"""Seconds and score."""


@dataclass(frozen=True, slots=True)
class DetailMark:
    """How much of a team's detail a display has.

    view: whose. edition: a trial before the last one was replaced or dropped since. trials: how many
    it has. changes: how often the detail had changed.
    """

    view: "TeamView"
    edition: int = 0
    trials: int = 0
    changes: int = -1


class TeamView:
    """The display of one team on one track. A trial is shown once it is closed, never before."""

    def __init__(self, team: str, track: str, name: str = "") -> None:
        self.team = team
        self.track = track
        self.name = name
        self.status = "waiting"
        self.reason = ""
        self.reasons: list[dict[str, Any]] = []
        self.lag_s = 0.0
        self.pace = ""
        self.measured: dict[str, float] = {}
        self.timeline = TrialTimeline(track)
        self.history: list[Point] = []
        self._trials: dict[TrialPlace, dict[str, Any]] = {}
        self._subjects: list[str] = []
        self._edition = 0
        self._changes = 0
        self._standing: RunStanding | None = None
        self._latencies = Latencies()
        self._confusion = Confusion()
        self._classes = tuple(TRACKS[track].classes.values())
        self._traces: dict[str, Any] | None = None
        self._sessions: list[dict[str, Any]] = []
        self._rate = 1.0
        self._time_s = 0.0
        self._all_packets_received = False
        self._repeated: set[tuple[int, int]] = set()

    def set_status(self, status: str, reason: str | Reason = "", lag_s: float = 0.0) -> None:
        """reason: a code, or free text."""
        self.status, self.lag_s = status, lag_s
        self.reason = short_text(describe(reason), LONGEST_REASON)
        self.reasons = [reason.to_json()] if isinstance(reason, Reason) else []

    def add_event(
        self, event: dict[str, Any], verdicts: Sequence[Verdict], run: Run
    ) -> ClosedTrials | None:
        """Take the next event of the log and the verdicts that `run.feed(event)` returned.

        Returns the trials that the event closed; `show_trials` shows them when the embargo allows.
        """
        # A session line closes the trials of the session before it, which may be of the same subject.
        trials = {self._place_of(verdict): verdict for verdict in verdicts}
        self._update(event)
        if not trials and event["kind"] != "end":
            return None
        t = event.get("t")
        return ClosedTrials(
            trials,
            run.standing(),
            t=float(t) if isinstance(t, int | float) else None,
            result=run.result() if run.end_reason is not None else None,
            traces=self._last_traces(run),
            ahead=event["kind"] not in NOT_AHEAD and not self._all_packets_received,
        )

    def show_trials(self, closed: ClosedTrials) -> list[dict[str, Any]]:
        """Show closed trials and the score after them; returns their rows.

        A verdict on a trial that is shown already replaces the earlier one.
        """
        rows = {
            key: verdict_row(self._without_label(verdict), self._classes) | {"session": key[1]}
            for key, verdict in closed.trials.items()
        }
        self._edition += not rows.keys().isdisjoint(self._trials)
        self._trials.update(rows)
        if (surplus := len(self._trials) - TRIALS_KEPT) > 0:
            self._trials = dict(islice(self._trials.items(), surplus, None))
            self._edition += 1
        for key, verdict in closed.trials.items():
            self._confusion.add(key, verdict)
        self._standing = closed.standing
        is_shown = all(self._without_label(v) is v for v in closed.trials.values())
        self._traces = (closed.traces if is_shown else None) or self._traces
        if closed.result is not None:
            self.set_result(closed.result)
        if self.status == "running":
            # A note on the source ("resumed") is shown until the next trial closes.
            self.set_status("running", lag_s=self.lag_s)
        self._add_to_history(closed.t)
        self._changes += 1
        return list(rows.values())

    def _without_label(self, verdict: Verdict) -> Verdict:
        """A verdict of a block that is played again, without its label and answers: it may be asked again."""
        if (verdict.session, verdict.block) not in self._repeated:
            return verdict
        return replace(verdict, label=None, answers=())

    def set_result(self, result: dict[str, Any]) -> None:
        """Take the final scores, `Run.result()`: they equal those of `bci-judge score` exactly."""
        self._sessions = result["sessions"]
        if self._standing is not None:
            self._standing = replace(self._standing, score=result["score"])

    def row(self) -> LeaderboardRow:
        """The team's row without a rank."""
        row = self._row()
        return replace(row, **self.measured) if self.measured else row  # type: ignore[arg-type]

    def _row(self) -> LeaderboardRow:
        track = TRACKS[self.track]
        row = LeaderboardRow(
            self.team,
            self.track,
            unit=track.unit,
            latency_p50_s=self._latencies.percentile(0.50),
            latency_p99_s=self._latencies.percentile(0.99),
            status=self.status,
            lag_s=self.lag_s,
            reason=self.reason,
            reasons=self.reasons,
            name=self.name,
        )
        standing = self._standing
        if standing is None:
            return row
        return replace(
            row,
            score=standing.score,
            accuracy=standing.accuracy,
            used=standing.mean_used if track.waits else None,
            used_unit=standing.used_unit,
            trials=standing.trials,
            right=standing.right,
        )

    def detail(self) -> dict[str, Any]:
        """What the team's own page shows beside its row."""
        return {
            "history": list(self.history),
            "trials": list(self._trials.values()),
            **self._summary(),
        }

    def detail_after(
        self, mark: DetailMark | None, most: int
    ) -> tuple[dict[str, Any], DetailMark] | None:
        """What a display with `mark` lacks, at most `most` trials of it, and its next mark; None if nothing.

        The trials from number `first` on are to be replaced by `trials`. The history is not part of it.
        """
        if mark is None or mark.view is not self or mark.edition != self._edition:
            mark = DetailMark(self, self._edition)
        if mark.changes == self._changes and mark.trials == len(self._trials):
            return None
        end = min(mark.trials + most, len(self._trials))
        trials = list(islice(self._trials.values(), mark.trials, end))
        part = {"first": mark.trials, "trials": trials, **self._summary()}
        return part, DetailMark(self, self._edition, end, self._changes)

    def _summary(self) -> dict[str, Any]:
        return {
            "confusion": self._confusion.table(self._classes),
            "angles": self._traces,
            "sessions": self._sessions,
        }

    def _place_of(self, verdict: Verdict) -> TrialPlace:
        session = self._subjects[: verdict.session + 1].count(verdict.subject)
        return verdict.subject, session, verdict.block, verdict.trial

    def _update(self, event: dict[str, Any]) -> None:
        """Take from an event what may be shown at once: position, latency, status."""
        match event["kind"]:
            case "packet":
                self.timeline.add_packet(event["n"], event["triggers"])
                self._time_s += event["n"] / self._rate
                self._all_packets_received = bool(event.get("finish"))
            case "report":
                self.timeline.add_report()
                if (latency_s := elapsed_s(event)) is not None:
                    self._latencies.add(latency_s)
            case "run":
                self.pace = str(event.get("pace", "realtime"))
                self.name = short_text(str(event.get("name", self.name)), LONGEST_REASON)
            case "session":
                self._rate = float(event["rate"])
                self._subjects.append(str(event["subject"]))
                self.timeline.begin_session(short_text(str(event["subject"])), self._rate)
                if self.status not in FINAL:
                    self.set_status("running")
            case "void" if event.get("again") is True:
                self._repeated.add((int(event["session"]), int(event["block"])))
            case "end":
                self.set_status(str(event["reason"]), str(event.get("detail", "")))
                self.reasons = [event["why"]] if isinstance(event.get("why"), dict) else []

    def _last_traces(self, run: Run) -> dict[str, Any] | None:
        """The traces of the last judged trial, thinned for a screen; None if there are none."""
        facts = TRACKS[self.track].traces
        traces = run.sessions[-1].referee.last_traces() if run.sessions else None
        if facts is None or traces is None:
            return None
        step = max(1, -(-len(traces.measured) // TRACE_ROWS_SHOWN))
        return {
            "joints": facts.names,
            "rate": facts.rate / step,
            "truth": traces.measured[::step].round(2).tolist(),
            "reported": traces.reported[::step].round(2).tolist(),
        }

    def _add_to_history(self, t: float | None) -> None:
        """Add the score at time t (judge's clock, else seconds of data); thin a long history."""
        score = self._standing.score if self._standing is not None else 0.0
        point = (round(self._time_s if t is None else t, 2), score)
        self.history = with_point(self.history, point)


def with_point(history: list[Point], point: Point) -> list[Point]:
    """A history with one more point; every second one of a long history is left out."""
    history.append(point)
    return history if len(history) <= HISTORY_KEPT else [*history[:-1:2], history[-1]]


class TrialTimeline:
    """The triggers and reports of a team's running trial.

    Positions are in seconds of data since the packet after the trial's trigger packet.
    """

    def __init__(self, track: str) -> None:
        self._facts = TRACKS[track].timeline
        self.begin_session("", 1.0)

    def begin_session(self, subject: str, rate: float) -> None:
        self._subject = subject
        self._rate = rate
        self._blocks = BlockCounter()
        self._trial = -1
        self._now = 0
        self._restart()

    def add_packet(self, n: int, triggers: list[list[int]]) -> None:
        first = self._now
        self._now = first + n
        for offset, code in triggers:
            self._add_trigger(first + offset, code)
        if self._facts.begins is None and self._seconds(self._now) > self._facts.span_s:
            self._restart()

    def add_report(self) -> None:
        if len(self._reports) < MARKS_KEPT:
            self._reports.append(self._now)

    def view(self) -> dict[str, Any]:
        """What the page draws; the trial is None if the track shows none or none has begun."""
        return {
            "subject": self._subject,
            "block": self._blocks.current,
            "trial": self._trial if self._trial >= 0 else None,
            "span_s": self._facts.span_s,
            "now_s": round(self._seconds(self._now), 3),
            "triggers": [[round(self._seconds(at), 3), code] for at, code in self._triggers],
            "reports": [round(self._seconds(at), 3) for at in self._reports],
        }

    def _add_trigger(self, position: int, code: int) -> None:
        self._blocks.see(code)
        if self._facts.begins is not None and self._facts.begins(code):
            self._trial += 1
            self._restart()
        elif code == BLOCK_START:
            self._trial = -1
        if len(self._triggers) < MARKS_KEPT:
            self._triggers.append((position, code))

    def _restart(self) -> None:
        self._origin = self._now
        self._triggers: list[tuple[int, int]] = []
        self._reports: list[int] = []

    def _seconds(self, position: int) -> float:
        return (position - self._origin) / self._rate


def elapsed_s(event: Mapping[str, Any]) -> float | None:
    """How long a report took, as the judge measured it; None if the event does not have it."""
    value = event.get("elapsed_s") if event.get("kind") == "report" else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


class Latencies:
    """A histogram of latencies with narrow bins: memory and time do not grow with their number."""

    def __init__(self) -> None:
        self._count = 0
        self._bins: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        index = round(math.log(max(seconds, LEAST_LATENCY_S) / LEAST_LATENCY_S) / _LOG_BIN_RATIO)
        self._bins[index] = self._bins.get(index, 0) + 1
        self._count += 1

    def percentile(self, share: float) -> float | None:
        """The least latency in s that `share` (0 to 1) of the reports do not exceed; None without reports."""
        wanted, below = share * self._count, 0
        for index in sorted(self._bins):
            below += self._bins[index]
            if below >= wanted:
                return round(float(LEAST_LATENCY_S * BIN_RATIO**index), 6)
        return None
