"""The season's store: submissions, their units and attempts, in SQLite or PostgreSQL.

Unlike the leaderboard's store it can't be rebuilt from run logs: back it up. Each change is one transaction,
so that a process that is killed leaves no half of it. A unit is leased to one worker for a time; a result
counts only from the attempt that holds the lease, and so each unit counts once.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Final

from bci_stream.errors import StoreError
from bci_stream.leaderboard.store import (
    POSTGRES,
    Cursor,
    Database,
    PostgresDatabase,
    SqliteDatabase,
    store_path,
)
from bci_stream.season.queue import (
    CHECK,
    MOST_ATTEMPTS,
    FaultSide,
    Stage,
    TeamQueue,
    next_team,
    retry_delay_s,
)

RUN: Final = 1
"""Number of the unit that runs a submission on the recordings of its phase."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE submissions (
            id INTEGER PRIMARY KEY, team TEXT NOT NULL, track TEXT NOT NULL, phase TEXT NOT NULL,
            name TEXT NOT NULL, bytes BIGINT NOT NULL, sha256 TEXT NOT NULL,
            received DOUBLE PRECISION NOT NULL, stage TEXT NOT NULL, fault TEXT NOT NULL,
            reason TEXT NOT NULL, report TEXT NOT NULL, score DOUBLE PRECISION,
            row_json TEXT NOT NULL, sessions_json TEXT NOT NULL, ended DOUBLE PRECISION,
            chosen INTEGER NOT NULL)""",
        "CREATE INDEX submissions_of_team ON submissions (team, phase, track)",
        """CREATE TABLE units (
            submission INTEGER NOT NULL REFERENCES submissions (id), number INTEGER NOT NULL,
            team TEXT NOT NULL, state TEXT NOT NULL, attempt INTEGER NOT NULL,
            failures INTEGER NOT NULL, not_before DOUBLE PRECISION NOT NULL,
            lease_until DOUBLE PRECISION NOT NULL, worker TEXT NOT NULL,
            log TEXT NOT NULL, log_sha256 TEXT NOT NULL,
            PRIMARY KEY (submission, number))""",
        "CREATE INDEX units_by_state ON units (state, team, submission, number)",
        """CREATE TABLE attempts (
            submission INTEGER NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL,
            worker TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION,
            outcome TEXT NOT NULL, detail TEXT NOT NULL, log_sha256 TEXT NOT NULL,
            PRIMARY KEY (submission, number, attempt))""",
        "CREATE TABLE team_turns (team TEXT PRIMARY KEY, turn BIGINT NOT NULL)",
        """CREATE TABLE actions (
            at DOUBLE PRECISION NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL,
            about TEXT NOT NULL)""",
    ),
)
"""The statements that lead from each version of the tables to the next; version n is made by the first n."""


def open_season_store(where: str) -> "SeasonStore":
    """A postgresql:// URL opens PostgreSQL; anything else is the path of a SQLite file."""
    if where.startswith(POSTGRES):
        return SeasonStore(PostgresDatabase(where))
    return SeasonStore(SqliteDatabase(store_path(where), durable=True))


@dataclass(frozen=True, slots=True)
class Submission:
    """What a team has uploaded, and how it did.

    id: from 1, in the order of arrival. name: the file's name on the team's side, shown only. received,
    ended: seconds since 1970. report: what the check or the run had to say to the team. row: of the
    leaderboard, without its rank. chosen: the team wants this one to count.
    """

    id: int
    team: str
    track: str
    phase: str
    name: str
    bytes: int
    sha256: str
    received: float
    stage: Stage = "received"
    fault: FaultSide = ""
    reason: str = ""
    report: str = ""
    score: float | None = None
    row: dict[str, Any] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    ended: float | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class UnitLease:
    """The right to do a unit until `until` (seconds since 1970)."""

    submission: int
    number: int
    attempt: int
    worker: str
    until: float


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The result of a unit.

    ending: of a check "passed" or "rejected"; of a run the reason in its log's end line. reason: why, in
    words or as a reason code in JSON. report: text for the team. log: of a run, with its SHA-256.
    """

    ending: str
    reason: str = ""
    report: str = ""
    score: float | None = None
    row: dict[str, Any] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    log_sha256: str = ""


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit as the store has it; state: "waiting", "leased" or "done"."""

    submission: int
    number: int
    state: str
    attempt: int
    failures: int
    not_before: float
    lease_until: float
    worker: str
    log: str
    log_sha256: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a unit; outcome: "" while it runs, "late" for a result after its lease."""

    submission: int
    number: int
    attempt: int
    worker: str
    began: float
    ended: float | None
    outcome: str
    detail: str
    log_sha256: str


_SUBMISSION = ", ".join(
    {"row": "row_json", "sessions": "sessions_json"}.get(f.name, f.name) for f in fields(Submission)
)
_UNIT = ", ".join(f.name for f in fields(UnitState))
_ATTEMPT = ", ".join(f.name for f in fields(Attempt))
_OF_UNIT = "submission = ? AND number = ?"
_SET_STAGE = "UPDATE submissions SET stage = ?, fault = ?, reason = ?, ended = ? WHERE id = ?"


class SeasonStore:
    """Submissions, units and attempts in a database; opening it makes or upgrades its tables."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_postgres = isinstance(database, PostgresDatabase)
        try:
            with self._transaction() as cursor:
                self._migrate(cursor)
        except StoreError:
            database.close()
            raise

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        """A transaction that waits until all others are over, as SQLite's do."""
        with self._database.transaction() as cursor:
            if self._is_postgres:
                cursor.execute("SELECT pg_advisory_xact_lock(7245)")
            yield cursor

    def _migrate(self, cursor: Cursor) -> None:
        cursor.execute("CREATE TABLE IF NOT EXISTS season_version (version INTEGER NOT NULL)")
        cursor.execute("SELECT max(version) FROM season_version")
        found = cursor.fetchall()[0][0] or 0
        if found > len(MIGRATIONS):
            raise StoreError(
                f"the season's store {self._database.name} is of version {found}, written by a newer "
                f"bci-judge; this one reads up to {len(MIGRATIONS)}: upgrade it, or give another store"
            )
        for statements in MIGRATIONS[found:]:
            for statement in statements:
                cursor.execute(statement)
        if found < len(MIGRATIONS):
            cursor.execute("DELETE FROM season_version")
            cursor.execute("INSERT INTO season_version VALUES (?)", (len(MIGRATIONS),))

    # --- submissions --------------------------------------------------------------------------

    def add(
        self,
        make: Callable[[int], Submission],
        admit: Callable[[Sequence[Submission]], None],
        team: str,
    ) -> Submission:
        """Add a submission and the unit that checks it.

        make: called with the new id. admit: called with all submissions of the team; raises to refuse.
        """
        with self._transaction() as cursor:
            admit(_submissions(cursor, "WHERE team = ? ORDER BY id", (team,)))
            cursor.execute("SELECT coalesce(max(id), 0) + 1 FROM submissions")
            new = make(cursor.fetchall()[0][0])
            marks = ", ".join("?" for _ in fields(Submission))
            cursor.execute(
                f"INSERT INTO submissions ({_SUBMISSION}) VALUES ({marks})", _values(new)
            )
            _add_unit(cursor, new, CHECK)
        return new

    def submission(self, number: int) -> Submission | None:
        with self._database.transaction() as cursor:
            found = _submissions(cursor, "WHERE id = ?", (number,))
        return found[0] if found else None

    def submissions(
        self, *, team: str | None = None, phase: str | None = None, track: str | None = None
    ) -> list[Submission]:
        """All, or those of a team, phase or track, in the order of arrival."""
        wanted = {"team": team, "phase": phase, "track": track}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(f'{name} = ?' for name in given)} " if given else ""
        with self._database.transaction() as cursor:
            return _submissions(cursor, f"{where}ORDER BY id", tuple(given.values()))

    def results(self, phase: str, track: str) -> list[Submission]:
        """Those of a phase and track that have a score, without reports and subjects: thousands are fast."""
        columns = _SUBMISSION.replace("report,", "'',").replace("sessions_json", "'[]'")
        sql = (
            f"SELECT {columns} FROM submissions WHERE phase = ? AND track = ? AND score IS NOT NULL"
        )
        with self._database.transaction() as cursor:
            cursor.execute(f"{sql} ORDER BY id", (phase, track))
            return [_submission(row) for row in cursor.fetchall()]

    def results_version(self, phase: str, track: str) -> tuple[Any, ...]:
        """Changes whenever `results` may have changed."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "SELECT count(score), max(ended), sum(chosen * id) FROM submissions "
                "WHERE phase = ? AND track = ?",
                (phase, track),
            )
            return cursor.fetchall()[0]

    def uploads(self) -> set[int]:
        """The ids of all submissions."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT id FROM submissions")
            return {number for (number,) in cursor.fetchall()}

    def choose(self, number: int) -> None:
        """Mark a submission as the one of its team, phase and track that the team wants to count."""
        with self._transaction() as cursor:
            (chosen,) = _submissions(cursor, "WHERE id = ?", (number,))
            of_team = (chosen.team, chosen.phase, chosen.track)
            cursor.execute(
                "UPDATE submissions SET chosen = CASE WHEN id = ? THEN 1 ELSE 0 END "
                "WHERE team = ? AND phase = ? AND track = ?",
                (number, *of_team),
            )

    def disqualify(self, number: int, who: str, reason: str, now: float) -> None:
        """Let a submission count for nothing; a unit of it that runs is late from now on."""
        with self._transaction() as cursor:
            cursor.execute(_SET_STAGE, ("disqualified", "team", reason, now, number))
            cursor.execute("UPDATE units SET state = 'done' WHERE submission = ?", (number,))
            _log_action(cursor, now, who, "disqualify", f"submission {number}: {reason}")

    def retry(self, number: int, who: str, now: float) -> None:
        """Do a submission again now that failed, or waits, through the organiser's side.

        Raises StoreError for any other submission.
        """
        with self._transaction() as cursor:
            (found,) = _submissions(cursor, "WHERE id = ?", (number,))
            if found.fault != "organiser":
                raise StoreError(
                    f"submission {number} is {found.stage}, not through the organiser's side: only what "
                    "failed there is done again"
                )
            cursor.execute("SELECT max(number) FROM units WHERE submission = ?", (number,))
            last = cursor.fetchall()[0][0]
            cursor.execute(
                "UPDATE units SET failures = 0, not_before = 0, state = 'waiting' "
                f"WHERE {_OF_UNIT} AND state <> 'leased'",
                (number, last),
            )
            cursor.execute(_SET_STAGE, (_waiting_stage(last), "", "", None, number))
            _log_action(cursor, now, who, "retry", f"submission {number}")

    def actions(self) -> list[tuple[float, str, str, str]]:
        """What the organiser did: (seconds since 1970, who, action, about), the latest first."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT at, who, action, about FROM actions ORDER BY at DESC")
            return [(at, who, action, about) for at, who, action, about in cursor.fetchall()]

    # --- units --------------------------------------------------------------------------------

    def queues(self) -> list[TeamQueue]:
        """The teams that have waiting units."""
        with self._database.transaction() as cursor:
            return _queues(cursor, float("inf"))

    def units(self, submission: int | None = None) -> list[UnitState]:
        where, values = ("WHERE submission = ? ", (submission,)) if submission else ("", ())
        with self._database.transaction() as cursor:
            cursor.execute(f"SELECT {_UNIT} FROM units {where}ORDER BY submission, number", values)
            return [UnitState(*row) for row in cursor.fetchall()]

    def attempts(self, submission: int | None = None) -> list[Attempt]:
        where, values = ("WHERE submission = ? ", (submission,)) if submission else ("", ())
        sql = f"SELECT {_ATTEMPT} FROM attempts {where}ORDER BY submission, number, attempt"
        with self._database.transaction() as cursor:
            cursor.execute(sql, values)
            return [Attempt(*row) for row in cursor.fetchall()]

    def lease(
        self, worker: str, now: float, lease_s: float, most_a_team: int
    ) -> tuple[UnitLease, Submission] | None:
        """Lease the next unit in the fair order, or None if none is ready."""
        with self._transaction() as cursor:
            team = next_team(_queues(cursor, now), most_a_team)
            if team is None:
                return None
            cursor.execute(
                "SELECT submission, number, attempt FROM units WHERE state = 'waiting' AND team = ? "
                "AND not_before <= ? ORDER BY submission, number LIMIT 1",
                (team, now),
            )
            submission, number, attempt = cursor.fetchall()[0]
            lease = UnitLease(submission, number, attempt + 1, worker, now + lease_s)
            cursor.execute(
                "UPDATE units SET state = 'leased', attempt = ?, worker = ?, lease_until = ? "
                f"WHERE {_OF_UNIT}",
                (lease.attempt, worker, lease.until, submission, number),
            )
            cursor.execute(
                f"INSERT INTO attempts ({_ATTEMPT}) VALUES (?, ?, ?, ?, ?, NULL, '', '', '')",
                (submission, number, lease.attempt, worker, now),
            )
            cursor.execute(
                "INSERT INTO team_turns (team, turn) "
                "VALUES (?, (SELECT coalesce(max(turn), 0) + 1 FROM team_turns)) "
                "ON CONFLICT (team) DO UPDATE SET turn = excluded.turn",
                (team,),
            )
            stage = "checking" if number == CHECK else "running"
            cursor.execute("UPDATE submissions SET stage = ? WHERE id = ?", (stage, submission))
            return lease, _submissions(cursor, "WHERE id = ?", (submission,))[0]

    def renew(self, lease: UnitLease, until: float) -> bool:
        """Extend a lease; False if it was lost."""
        with self._transaction() as cursor:
            if not _holds(cursor, lease):
                return False
            cursor.execute(
                f"UPDATE units SET lease_until = ? WHERE {_OF_UNIT}",
                (until, lease.submission, lease.number),
            )
            return True

    def finish(self, lease: UnitLease, result: UnitResult, now: float) -> bool:
        """Take a result; False if the lease was lost: it is recorded as late, and does not count."""
        with self._transaction() as cursor:
            if not _holds(cursor, lease):
                _note_late(cursor, lease, now, result.ending, result.log_sha256)
                return False
            _end_attempt(cursor, lease, now, result.ending, result.reason, result.log_sha256)
            cursor.execute(
                f"UPDATE units SET state = 'done', log = ?, log_sha256 = ? WHERE {_OF_UNIT}",
                (result.log, result.log_sha256, lease.submission, lease.number),
            )
            (submission,) = _submissions(cursor, "WHERE id = ?", (lease.submission,))
            if lease.number == CHECK:
                _take_check(cursor, submission, result, now)
            else:
                _take_run(cursor, submission, result, now)
            return True

    def give_back(self, lease: UnitLease, reason: str, now: float) -> bool:
        """Try a unit again later that failed through the organiser's side; False if the lease was lost."""
        with self._transaction() as cursor:
            if not _holds(cursor, lease):
                _note_late(cursor, lease, now, reason, "")
                return False
            _end_attempt(cursor, lease, now, "stopped", reason, "")
            cursor.execute(
                f"SELECT failures FROM units WHERE {_OF_UNIT}", (lease.submission, lease.number)
            )
            failures = cursor.fetchall()[0][0] + 1
            again = failures < MOST_ATTEMPTS
            cursor.execute(
                f"UPDATE units SET state = ?, failures = ?, not_before = ? WHERE {_OF_UNIT}",
                (
                    "waiting" if again else "done",
                    failures,
                    now + retry_delay_s(failures),
                    lease.submission,
                    lease.number,
                ),
            )
            stage = _waiting_stage(lease.number) if again else "failed"
            ended = None if again else now
            cursor.execute(_SET_STAGE, (stage, "organiser", reason, ended, lease.submission))
            return True

    def expire(self, now: float) -> list[UnitLease]:
        """End the leases that have run out; their units wait again."""
        with self._transaction() as cursor:
            return _end_leases(cursor, now, "AND lease_until < ?", (now,), "expired")

    def release(self, worker: str, now: float) -> list[UnitLease]:
        """End the leases of workers of this name, which are known to be gone."""
        with self._transaction() as cursor:
            return _end_leases(cursor, now, "AND worker = ?", (worker,), "lost")

    def close(self) -> None:
        self._database.close()


# --- rows -------------------------------------------------------------------------------------


def _values(submission: Submission) -> tuple[Any, ...]:
    plain = {f.name: getattr(submission, f.name) for f in fields(Submission)}
    plain["row"] = json.dumps(submission.row)
    plain["sessions"] = json.dumps(submission.sessions)
    plain["chosen"] = int(submission.chosen)
    return tuple(plain.values())


def _submissions(cursor: Cursor, which: str, values: Sequence[Any]) -> list[Submission]:
    cursor.execute(f"SELECT {_SUBMISSION} FROM submissions {which}", values)
    return [_submission(row) for row in cursor.fetchall()]


def _submission(values: Sequence[Any]) -> Submission:
    named = dict(zip((f.name for f in fields(Submission)), values, strict=True))
    named["row"] = json.loads(named["row"])
    named["sessions"] = json.loads(named["sessions"])
    named["chosen"] = bool(named["chosen"])
    return Submission(**named)


def _add_unit(cursor: Cursor, submission: Submission, number: int) -> None:
    cursor.execute(
        f"INSERT INTO units (team, {_UNIT}) VALUES (?, ?, ?, 'waiting', 0, 0, 0, 0, '', '', '')",
        (submission.team, submission.id, number),
    )


def _queues(cursor: Cursor, now: float) -> list[TeamQueue]:
    """Of the units that may be begun at `now`; running ones count whenever they were begun."""
    cursor.execute(
        "SELECT u.team, coalesce(max(t.turn), 0), min(u.submission), count(*) FROM units u "
        "LEFT JOIN team_turns t ON t.team = u.team "
        "WHERE u.state = 'waiting' AND u.not_before <= ? GROUP BY u.team",
        (min(now, 1e15),),
    )
    waiting = cursor.fetchall()
    cursor.execute("SELECT team, count(*) FROM units WHERE state = 'leased' GROUP BY team")
    running = dict(cursor.fetchall())
    return [
        TeamQueue(team, turn, first, count, running.get(team, 0))
        for team, turn, first, count in waiting
    ]


def _holds(cursor: Cursor, lease: UnitLease) -> bool:
    """Whether this attempt is the one that the unit is leased to."""
    cursor.execute(
        f"SELECT attempt FROM units WHERE {_OF_UNIT} AND state = 'leased'",
        (lease.submission, lease.number),
    )
    found = cursor.fetchall()
    return bool(found) and found[0][0] == lease.attempt


def _end_attempt(
    cursor: Cursor, lease: UnitLease, now: float, outcome: str, detail: str, log_sha256: str
) -> None:
    cursor.execute(
        "UPDATE attempts SET ended = ?, outcome = ?, detail = ?, log_sha256 = ? "
        f"WHERE {_OF_UNIT} AND attempt = ?",
        (now, outcome, detail, log_sha256, lease.submission, lease.number, lease.attempt),
    )


def _note_late(cursor: Cursor, lease: UnitLease, now: float, detail: str, log_sha256: str) -> None:
    """Record that an attempt that had lost its lease came back; one whose result was taken stays as it is."""
    cursor.execute(
        "UPDATE attempts SET ended = ?, outcome = 'late', detail = ?, log_sha256 = ? "
        f"WHERE {_OF_UNIT} AND attempt = ? AND outcome IN ('', 'expired', 'lost')",
        (now, detail, log_sha256, lease.submission, lease.number, lease.attempt),
    )


def _end_leases(
    cursor: Cursor, now: float, which: str, values: Sequence[Any], outcome: str
) -> list[UnitLease]:
    cursor.execute(
        "SELECT submission, number, attempt, worker, lease_until FROM units "
        f"WHERE state = 'leased' {which} ORDER BY submission, number",
        values,
    )
    leases = [UnitLease(*row) for row in cursor.fetchall()]
    for lease in leases:
        _end_attempt(cursor, lease, now, outcome, "", "")
        unit = (lease.submission, lease.number)
        cursor.execute(f"UPDATE units SET state = 'waiting' WHERE {_OF_UNIT}", unit)
        stage = _waiting_stage(lease.number)
        cursor.execute(_SET_STAGE, (stage, "", "", None, lease.submission))
    return leases


def _waiting_stage(number: int) -> Stage:
    return "received" if number == CHECK else "queued"


def _take_check(cursor: Cursor, submission: Submission, result: UnitResult, now: float) -> None:
    passed = result.ending == "passed"
    stage: Stage = "queued" if passed else "rejected"
    fault: FaultSide = "" if passed else "team"
    ended = None if passed else now
    cursor.execute(_SET_STAGE, (stage, fault, result.reason, ended, submission.id))
    cursor.execute("UPDATE submissions SET report = ? WHERE id = ?", (result.report, submission.id))
    if passed:
        _add_unit(cursor, submission, RUN)


def _take_run(cursor: Cursor, submission: Submission, result: UnitResult, now: float) -> None:
    finished = result.ending == "finished"
    stage: Stage = "judged" if finished else "failed"
    fault: FaultSide = "" if finished else "team"
    cursor.execute(_SET_STAGE, (stage, fault, result.reason, now, submission.id))
    cursor.execute(
        "UPDATE submissions SET score = ?, row_json = ?, sessions_json = ? WHERE id = ?",
        (result.score, json.dumps(result.row), json.dumps(result.sessions), submission.id),
    )
    report = "\n\n".join(filter(None, (submission.report, result.report)))
    cursor.execute("UPDATE submissions SET report = ? WHERE id = ?", (report, submission.id))


def _log_action(cursor: Cursor, now: float, who: str, action: str, about: str) -> None:
    cursor.execute("INSERT INTO actions VALUES (?, ?, ?, ?)", (now, who, action, about))
