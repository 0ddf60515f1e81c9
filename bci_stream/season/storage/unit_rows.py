"""How the rows of units change: leased, ended, held, and what their results make of a submission.

Functions of a cursor, called by `SeasonStore` inside its transactions.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from bci_stream.leaderboard.store import Cursor
from bci_stream.season.queue import CHECK, FaultSide, Stage, TeamQueue
from bci_stream.season.storage.schema import (
    ATTEMPT,
    RUN,
    UNIT,
    Submission,
    UnitLease,
    UnitResult,
    UnitState,
)

OF_UNIT: Final = "submission = ? AND number = ?"
SET_STAGE: Final = "UPDATE submissions SET stage = ?, fault = ?, reason = ?, ended = ? WHERE id = ?"


def add_unit(cursor: Cursor, submission: Submission, number: int) -> None:
    cursor.execute(
        "INSERT INTO units (submission, number, team, state, attempt, failures, not_before, lease_until, "
        "worker, log, log_sha256) VALUES (?, ?, ?, 'waiting', 0, 0, 0, 0, '', '', '')",
        (submission.id, number, submission.team),
    )


def read_units(cursor: Cursor, submission: int | None = None) -> list[UnitState]:
    """All, or those of one submission."""
    where, values = ("WHERE submission = ? ", (submission,)) if submission else ("", ())
    cursor.execute(f"SELECT {UNIT} FROM units {where}ORDER BY submission, number", values)
    return [UnitState(*row) for row in cursor.fetchall()]


def read_queues(cursor: Cursor, now: float) -> list[TeamQueue]:
    """Of the units that may be begun at `now`; running ones count whenever they were begun."""
    cursor.execute(
        "SELECT w.team, coalesce(t.turn, 0), w.first, w.waiting FROM "
        "(SELECT team, min(submission) AS first, count(*) AS waiting FROM units "
        "WHERE state = 'waiting' AND not_before <= ? GROUP BY team) w "
        "LEFT JOIN team_turns t ON t.team = w.team",
        (min(now, 1e15),),
    )
    waiting = cursor.fetchall()
    cursor.execute("SELECT team, count(*) FROM units WHERE state = 'leased' GROUP BY team")
    running = dict(cursor.fetchall())
    return [
        TeamQueue(team, turn, first, count, running.get(team, 0))
        for team, turn, first, count in waiting
    ]


def next_lease(cursor: Cursor, team: str, worker: str, now: float, until: float) -> UnitLease:
    """Lease the first unit of a team that may be begun; the team's next turn comes after all others."""
    cursor.execute(
        "SELECT submission, number, attempt FROM units WHERE state = 'waiting' AND team = ? "
        "AND not_before <= ? ORDER BY submission, number LIMIT 1",
        (team, now),
    )
    submission, number, attempt = cursor.fetchall()[0]
    lease = UnitLease(submission, number, attempt + 1, worker, until)
    cursor.execute(
        f"UPDATE units SET state = 'leased', attempt = ?, worker = ?, lease_until = ? WHERE {OF_UNIT}",
        (lease.attempt, worker, until, submission, number),
    )
    cursor.execute(
        f"INSERT INTO attempts ({ATTEMPT}) VALUES (?, ?, ?, ?, ?, NULL, '', '', '')",
        (submission, number, lease.attempt, worker, now),
    )
    cursor.execute(
        "INSERT INTO team_turns (team, turn) "
        "VALUES (?, (SELECT coalesce(max(turn), 0) + 1 FROM team_turns)) "
        "ON CONFLICT (team) DO UPDATE SET turn = excluded.turn",
        (team,),
    )
    return lease


def holds(cursor: Cursor, lease: UnitLease) -> bool:
    """Whether this attempt is the one that the unit is leased to."""
    cursor.execute(
        f"SELECT attempt FROM units WHERE {OF_UNIT} AND state = 'leased'",
        (lease.submission, lease.number),
    )
    found = cursor.fetchall()
    return bool(found) and found[0][0] == lease.attempt


def end_attempt(
    cursor: Cursor, lease: UnitLease, now: float, outcome: str, detail: str, log_sha256: str
) -> None:
    cursor.execute(
        "UPDATE attempts SET ended = ?, outcome = ?, detail = ?, log_sha256 = ? "
        f"WHERE {OF_UNIT} AND attempt = ?",
        (now, outcome, detail, log_sha256, lease.submission, lease.number, lease.attempt),
    )


def note_late(cursor: Cursor, lease: UnitLease, now: float, detail: str, log_sha256: str) -> None:
    """Record that an attempt that had lost its lease came back; one whose result was taken stays as it is."""
    cursor.execute(
        "UPDATE attempts SET ended = ?, outcome = 'late', detail = ?, log_sha256 = ? "
        f"WHERE {OF_UNIT} AND attempt = ? AND outcome IN ('', 'expired', 'lost')",
        (now, detail, log_sha256, lease.submission, lease.number, lease.attempt),
    )


def end_leases(
    cursor: Cursor, now: float, which: str, values: Sequence[Any], outcome: str
) -> list[UnitLease]:
    """End leases whose workers are gone; their units wait again."""
    cursor.execute(
        "SELECT submission, number, attempt, worker, lease_until FROM units "
        f"WHERE state = 'leased' {which} ORDER BY submission, number",
        values,
    )
    leases = [UnitLease(*row) for row in cursor.fetchall()]
    for lease in leases:
        end_attempt(cursor, lease, now, outcome, "", "")
        unit = (lease.submission, lease.number)
        cursor.execute(f"UPDATE units SET state = 'waiting' WHERE {OF_UNIT}", unit)
        wait_again(cursor, lease.submission)
    return leases


def wait_again(cursor: Cursor, submission: int, fault: FaultSide = "", reason: str = "") -> None:
    """Set the stage of a submission of which a unit waits again; one that is held stays held."""
    cursor.execute("SELECT ended FROM submissions WHERE id = ?", (submission,))
    if cursor.fetchall()[0][0] is None:
        set_pending(cursor, submission, fault, reason)
    else:
        _hold_units(cursor, submission)


def set_pending(cursor: Cursor, submission: int, fault: FaultSide = "", reason: str = "") -> None:
    """Set the stage of a submission that still has work to be done."""
    stage = _pending_stage(read_units(cursor, submission))
    cursor.execute(SET_STAGE, (stage, fault, reason, None, submission))


def _pending_stage(units: Sequence[UnitState]) -> Stage:
    if any(unit.state == "leased" for unit in units):
        return "checking" if units[-1].number == CHECK else "running"
    return "received" if units[-1].number == CHECK else "queued"


def hold(cursor: Cursor, submission: int, reason: str, now: float) -> None:
    """Fail a submission through the organiser's side; none of its units is begun until it is retried."""
    _hold_units(cursor, submission)
    cursor.execute(SET_STAGE, ("failed", "organiser", reason, now, submission))


def _hold_units(cursor: Cursor, submission: int) -> None:
    cursor.execute(
        "UPDATE units SET state = 'held' WHERE submission = ? AND state = 'waiting'", (submission,)
    )


def take_check(
    cursor: Cursor, submission: Submission, result: UnitResult, runs: int, now: float
) -> None:
    """Queue the runs of a submission whose check passed, or reject it."""
    passed = result.ending == "passed"
    stage: Stage = "queued" if passed else "rejected"
    fault: FaultSide = "" if passed else "team"
    ended = None if passed else now
    cursor.execute(SET_STAGE, (stage, fault, result.reason, ended, submission.id))
    cursor.execute("UPDATE submissions SET report = ? WHERE id = ?", (result.report, submission.id))
    for number in range(RUN, RUN + runs) if passed else ():
        add_unit(cursor, submission, number)


def take_run(cursor: Cursor, submission: Submission, result: UnitResult, now: float) -> None:
    """Take the result of all runs of a submission."""
    finished = result.ending == "finished"
    stage: Stage = "judged" if finished else "failed"
    fault: FaultSide = "" if finished else "team"
    cursor.execute(SET_STAGE, (stage, fault, result.reason, now, submission.id))
    cursor.execute(
        "UPDATE submissions SET score = ?, row_json = ?, sessions_json = ? WHERE id = ?",
        (result.score, json.dumps(result.row), json.dumps(result.sessions), submission.id),
    )
    report = "\n\n".join(filter(None, (submission.report, result.report)))
    cursor.execute("UPDATE submissions SET report = ? WHERE id = ?", (report, submission.id))


def log_action(cursor: Cursor, now: float, who: str, action: str, about: str) -> None:
    cursor.execute("INSERT INTO actions VALUES (?, ?, ?, ?)", (now, who, action, about))
