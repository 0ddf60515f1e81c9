"""Folding a run log gives what the leaderboard showed of it live."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bci_stream.errors import LogError, RuleError
from bci_stream.leaderboard.measured import read_measured
from bci_stream.leaderboard.ranking import LeaderboardRow
from bci_stream.leaderboard.team_view import TeamView, elapsed_s
from bci_stream.runlog import read_log
from tracks.run import Run


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run as a store keeps it.

    log: path of the run log, which identifies the run. log_bytes: its size when it was folded.
    """

    log: str
    contest: str
    log_bytes: int
    row: LeaderboardRow
    sessions: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class FoldedRun:
    """A whole log: the team's view, the run, and the measured latencies in seconds."""

    view: TeamView
    run: Run
    contest: str = ""
    latencies_s: list[float] = field(default_factory=list)


def find_logs(folder: Path) -> list[Path]:
    """The run logs (*.jsonl, *.jsonl.gz) below a folder, sorted; LogError if it has none."""
    logs = sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.jsonl.gz")])
    if not logs:
        raise LogError(f"{folder} holds no run log (*.jsonl)")
    return logs


def fold(path: Path) -> FoldedRun:
    """Fold a log from its first line to its last; LogError if it can't be read or scored."""
    run, view, contest, number = Run(), None, "", 0
    latencies_s: list[float] = []
    for number, event in read_log(path):
        try:
            verdicts = run.feed(event)
        except RuleError as error:
            raise LogError(f"{path}, line {number}: {error}") from None
        if view is None and run.track is not None:
            view = TeamView(run.team, run.track.name)
            contest = str(event.get("contest", ""))
        if view is not None and (closed := view.add_event(event, verdicts, run)) is not None:
            view.show_trials(closed)
        if (latency_s := elapsed_s(event)) is not None:
            latencies_s.append(latency_s)
    if view is None:
        raise LogError(f"{path}, line {number + 1}: the log ends without a run line")
    if not run.has_truth:
        raise LogError(f"{path}: the log holds no truth, so it can't be scored")
    view.set_result(run.result())
    view.measured = read_measured(path)
    return FoldedRun(view, run, contest, latencies_s)


def fold_log(path: Path, contest: str = "") -> StoredRun:
    """What a store keeps of a log; `contest` is used if the log itself names none."""
    log_bytes = path.stat().st_size
    folded = fold(path)
    return StoredRun(
        log=str(path),
        contest=folded.contest or contest,
        log_bytes=log_bytes,
        row=folded.view.row(),
        sessions=folded.run.result()["sessions"],
    )
