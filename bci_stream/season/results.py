"""What the server makes of a worker's outcome: it verifies the run log, scores it again and keeps it."""

import logging
from dataclasses import asdict
from pathlib import Path

from bci_stream.contest.contest import Contest
from bci_stream.errors import LogError, RuleError
from bci_stream.leaderboard.fold import fold_log
from bci_stream.runlog import make_runs_folder
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
