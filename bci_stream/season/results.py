"""What the server makes of run logs: it verifies, scores and keeps a worker's log, and compares two."""

import logging
from collections.abc import Iterator
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from bci_stream.contest.contest import Contest
from bci_stream.errors import LogError, RuleError
from bci_stream.leaderboard.fold import fold_log
from bci_stream.leaderboard.measured import move_measured
from bci_stream.runlog import encode, make_runs_folder, read_log
from bci_stream.season.jobs import UnitJob, UnitOutcome, log_of
from bci_stream.season.store import UnitResult
from bci_stream.verification import VerificationKeys, verify_log
from tracks.common.reasons import Reason

logger = logging.getLogger(__name__)


def log_place(contest: Contest, phase: str, job: UnitJob) -> Path:
    """Where the log of a judged run is kept; there is one for each submission."""
    return contest.runs / phase / f"{job.track}-{job.team}-{job.submission}.jsonl"


def result_of(
    contest: Contest, phase: str, job: UnitJob, folder: Path, outcome: UnitOutcome
) -> UnitResult | Reason:
    """The result that counts, or why the unit must be done again through no fault of the team.

    The log is moved to the contest's runs before the result is stored: a server that is killed between the
    two runs the unit again, and replaces it.
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
        logger.error("submission %d: %s", job.submission, error)
        return Reason("log_refused", detail=str(error))
    kept = log_place(contest, phase, job)
    make_runs_folder(contest.runs)
    kept.parent.mkdir(exist_ok=True, mode=0o700)
    written.replace(kept)
    move_measured(written, kept)
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


def _verify(contest: Contest, log: Path, job: UnitJob) -> None:
    """Raise LogError unless the log is as the worker's judge wrote it, and of this team."""
    keys = VerificationKeys(contest.keys.public_key(), contest.keys.issued_tokens)
    check = verify_log(log, keys)
    if not check.holds:
        raise LogError(f"the run log {log.name} does not verify: {check.problems[0]}")
    if check.team != job.team:
        raise LogError(f"the run log {log.name} is of team {check.team!r:.70}, not {job.team!r}")


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
