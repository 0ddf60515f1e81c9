"""Decisions on runs that are over: lines that are added to their logs, with a new seal."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bci_stream.amendments import amend_log, log_seal, void_line
from bci_stream.contest.actions import (
    DisqualifyTeam,
    OperatorAction,
    OperatorAnswer,
    OperatorRequest,
    VoidTrials,
)
from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError, LogError
from bci_stream.judge.operator.journal import OperatorJournal, journal_path
from bci_stream.runlog import read_log, score_run
from bci_stream.verification import LogCheck, VerificationKeys, verify_log
from tracks.common.reasons import Reason
from tracks.common.words import describe
from tracks.run import Run

Decide = Callable[[Run], dict[str, Any]]
"""Makes the line to add from the run as it stands; raises ContestError if it can't be added."""


def void_in_logs(contest: Contest, logs: Sequence[Path], action: VoidTrials, by: str) -> list[str]:
    """Void a trial or a block in logs of runs that are over; returns a line on each."""

    def decide(run: Run) -> dict[str, Any]:
        if action.team not in ("", run.team):
            raise ContestError(f"the log is of team {run.team!r}, not of {action.team!r}")
        return void_line(run, action.session, action.block, action.trial, action.reason)

    return _amend(contest, logs, action, by, decide)


def disqualify_in_logs(
    contest: Contest, logs: Sequence[Path], action: DisqualifyTeam, by: str
) -> list[str]:
    """Disqualify a team in logs of its runs that are over; returns a line on each."""

    def decide(run: Run) -> dict[str, Any]:
        if action.team != run.team:
            raise ContestError(f"the log is of team {run.team!r}, not of {action.team!r}")
        if run.end_reason == "disqualified":
            raise ContestError(f"team {run.team!r} is disqualified in it already")
        why = Reason("operator_disqualified", reason=action.reason)
        end = {"kind": "end", "reason": "disqualified", "detail": describe(why)}
        return {**end, "why": why.to_json()}

    return _amend(contest, logs, action, by, decide)


def _amend(
    contest: Contest, logs: Sequence[Path], action: OperatorAction, by: str, decide: Decide
) -> list[str]:
    """Check all logs before the first one is changed. Raises LogError or ContestError."""
    if not contest.keys.exist():
        raise ContestError(
            f"{contest.folder / 'keys'} holds no contest key, and only the organiser can seal a log: give "
            "--contest with the folder of the contest's keys"
        )
    keys = VerificationKeys(contest.keys.public_key(), contest.keys.issued_tokens)
    planned = []
    for path in logs:
        check = verify_log(path, keys)
        if not check.holds:
            raise LogError(
                f"{path} is not changed: it does not verify ({check.problems[0]}); see bci-judge verify"
            )
        run = score_run(path)
        try:
            line = decide(run)
        except ContestError as error:
            raise ContestError(f"{path}: {error}") from None
        line["t"] = max(float(event.get("t", 0.0)) for _, event in read_log(path))
        planned.append((path, check, line, float(run.result()["score"])))
    journal = OperatorJournal(journal_path(contest.folder, contest.name))
    try:
        return [_amend_one(contest, journal, action, by, *plan) for plan in planned]
    finally:
        journal.close()


def _amend_one(
    contest: Contest,
    journal: OperatorJournal,
    action: OperatorAction,
    by: str,
    path: Path,
    check: LogCheck,
    line: dict[str, Any],
    before: float,
) -> str:
    seal = log_seal(contest.keys.signing_key(), check.contest, check.run, check.team)
    amend_log(path, [line], seal)
    after = score_run(path).result()
    text = f"{path}: {action.words()}; score {before:.4f}, now {after['score']:.4f} {after['unit']}"
    journal.add(OperatorRequest(action, by), OperatorAnswer(True, text))  # type: ignore[arg-type]
    return text
