"""What the server makes of run logs: it verifies, scores and keeps a worker's log, and compares two."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from bci_stream.contest.contest import Contest
from bci_stream.errors import LogError, RuleError
from bci_stream.leaderboard.fold import FoldedRun, fold, fold_log
from bci_stream.leaderboard.measured import move_measured
from bci_stream.leaderboard.ranking import LeaderboardRow
from bci_stream.leaderboard.team_view import Latencies
from bci_stream.leaderboard.verdict_rows import LONGEST_REASON
from bci_stream.runlog import encode, make_runs_folder, read_log
from bci_stream.season.storage.schema import UnitResult, UnitState
from bci_stream.season.units.jobs import UnitJob, UnitOutcome, log_of
from bci_stream.verification import VerificationKeys, verify_log
from tracks.common.reasons import Reason
from tracks.common.verdicts import mean
from tracks.run import Tally


def log_place(contest: Contest, phase: str, job: UnitJob) -> Path:
    """Where the log of a judged run is kept; a submission that is split has one for each run."""
    run = f"-{job.number}" if job.runs > 1 else ""
    return contest.runs / phase / f"{job.track}-{job.team}-{job.submission}{run}.jsonl"


def result_of(
    contest: Contest, kept: Path, job: UnitJob, folder: Path, outcome: UnitOutcome
) -> UnitResult | Reason:
    """The result that counts, or why the unit must be done again through no fault of the team.

    kept: where the log is to be kept; `keep_log` moves it there.
    """
    if outcome.ending == "stopped":
        return Reason("unit_failed", detail=outcome.detail)
    if job.is_check or not outcome.log:
        return UnitResult(outcome.ending, outcome.detail, outcome.report)
    try:
        written = log_of(folder, outcome)
        _verify(contest, written, job)
        stored = fold_log(written, contest.name)
    except (LogError, RuleError) as error:
        return Reason("log_refused", detail=str(error))
    return UnitResult(
        outcome.ending,
        outcome.detail,
        outcome.report,
        score=stored.row.score,
        row=asdict(stored.row),
        sessions=stored.sessions,
        log=str(kept.relative_to(contest.folder)),
        log_sha256=outcome.log_sha256,
    )


def keep_log(contest: Contest, folder: Path, outcome: UnitOutcome, kept: Path) -> None:
    """Move the log of a run from the unit's folder to where it is kept. Raises OSError."""
    if outcome.log:
        make_runs_folder(contest.runs)
        kept.parent.mkdir(exist_ok=True, mode=0o700)
        written = folder / "runs" / Path(outcome.log).name
        written.replace(kept)
        move_measured(written, kept)


def _verify(contest: Contest, log: Path, job: UnitJob) -> None:
    """Raise LogError unless the log is as the worker's judge wrote it, and of this team."""
    keys = VerificationKeys(contest.keys.public_key(), contest.keys.issued_tokens)
    check = verify_log(log, keys)
    if not check.holds:
        raise LogError(f"the run log {log.name} does not verify: {check.problems[0]}")
    if check.team != job.team:
        raise LogError(f"the run log {log.name} is of team {check.team!r:.70}, not {job.team!r}")


def combined_result(contest: Contest, runs: Sequence[UnitState]) -> UnitResult:
    """The result of a submission whose subjects ran on their own, from the logs of its runs in their order.

    The score is the mean over all subjects, as that of one run of them all; a run that left no log counts as
    a subject with score 0. The ending is that of the first run that did not finish. Raises LogError.
    """
    folded = {run.number: fold(contest.folder / run.log) for run in runs if run.log}
    failed = next((run for run in runs if run.ending != "finished"), None)
    ending = "finished" if failed is None else failed.ending
    reason = "" if failed is None else f"run {failed.number} of {len(runs)}: {failed.reason}"
    report = "\n\n".join(
        f"run {run.number} of {len(runs)}: {run.report}" for run in runs if run.report
    )
    if not folded:
        return UnitResult(ending, reason, report)
    sessions = [
        session
        for run in runs
        for session in (
            folded[run.number].run.result()["sessions"] if run.log else [_missing(run.number)]
        )
    ]
    row = _combined_row(list(folded.values()), sessions)
    row = replace(row, status=ending, reason=reason[:LONGEST_REASON])
    return UnitResult(ending, reason, report, score=row.score, row=asdict(row), sessions=sessions)


def _missing(number: int) -> dict[str, Any]:
    counts = dict.fromkeys(("trials", "right", "answers", "refused", "void"), 0)
    return {"subject": f"run {number}", "score": 0.0, **counts}


def _combined_row(
    folded: Sequence[FoldedRun], sessions: Sequence[dict[str, Any]]
) -> LeaderboardRow:
    first, track = folded[0].view.row(), folded[0].run.track
    assert track is not None, "it was folded"
    tally, latencies = Tally(), Latencies()
    for each in folded:
        for verdict in each.run.verdicts():
            tally.add(verdict, track.used_unit)
        for seconds in each.latencies_s:
            latencies.add(seconds)
    used = tally.used / tally.timed if tally.timed and track.waits else None
    return replace(
        first,
        score=mean([each["score"] for each in sessions if each["score"] is not None]),
        accuracy=tally.right / tally.answers if tally.answers else None,
        used=used,
        trials=tally.trials,
        right=tally.right,
        latency_p50_s=latencies.percentile(0.50),
        latency_p99_s=latencies.percentile(0.99),
    )


# --- comparison -------------------------------------------------------------------------------

MEASURED: Final = frozenset({"t", "elapsed_s", "compute_s"})
OF_ONE_RUN: Final = frozenset({"h", "message", "contest", "run"})
"""The hash covers measured times; the team's message names the run."""
PASSED_OVER: Final = frozenset({"seal", "status"})


def comparable_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, the line without what may differ between two runs of one decoder)."""
    for number, event in read_log(path):
        if event.get("kind") not in PASSED_OVER:
            yield number, encode(_comparable(event))


def _comparable(event: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in event.items() if key not in MEASURED and key not in OF_ONE_RUN
    }


def first_difference(one: Path, other: Path) -> str | None:
    """Where two logs differ first, with both lines; None if they agree. Raises LogError."""
    pairs = zip_longest(
        comparable_lines(one), comparable_lines(other), fillvalue=(0, b"(no line)\n")
    )
    for (number, line), (other_number, other_line) in pairs:
        if line != other_line:
            shown = [text.decode(errors="replace").strip()[:200] for text in (line, other_line)]
            return f"line {number or other_number}: {shown[0]} against {shown[1]}"
    return None
