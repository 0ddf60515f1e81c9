"""The tables of a season's store: how they are made and upgraded, and their rows as objects."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from bci_stream.errors import StoreError
from bci_stream.leaderboard.store import Cursor
from bci_stream.season.queue import FaultSide, Stage

RUN: Final = 1
"""Number of the first unit that runs a submission; a submission that is split has more after it."""

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
    (
        "ALTER TABLE units ADD COLUMN ending TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE units ADD COLUMN reason TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE units ADD COLUMN report TEXT NOT NULL DEFAULT ''",
        """UPDATE units SET state = 'held' WHERE state = 'done' AND failures >= 10 AND log = ''
            AND submission IN (SELECT id FROM submissions WHERE stage = 'failed' AND fault = 'organiser')""",
        """CREATE TABLE announcements (
            id INTEGER PRIMARY KEY, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL)""",
        "CREATE TABLE phase_dates (phase TEXT PRIMARY KEY, opens TEXT NOT NULL, closes TEXT NOT NULL)",
        """CREATE TABLE applications (
            id INTEGER PRIMARY KEY, at DOUBLE PRECISION NOT NULL, team TEXT NOT NULL,
            name TEXT NOT NULL, contact TEXT NOT NULL, code_sha256 TEXT NOT NULL,
            state TEXT NOT NULL)""",
    ),
    (
        "DROP INDEX units_by_state",
        "CREATE INDEX units_by_state ON units (state, team, not_before, submission, number)",
        "CREATE INDEX submissions_by_result ON submissions (phase, track, ended, score, chosen)",
        "CREATE INDEX submissions_by_stage ON submissions (stage)",
        "CREATE INDEX submissions_by_fault ON submissions (fault, id)",
    ),
)
"""The statements that lead from each version of the tables to the next; version n is made by the first n."""


def migrate(cursor: Cursor, name: str) -> None:
    """Make the tables, or upgrade them. Raises StoreError for a store of a newer version."""
    cursor.execute("CREATE TABLE IF NOT EXISTS season_version (version INTEGER NOT NULL)")
    cursor.execute("SELECT max(version) FROM season_version")
    found = cursor.fetchall()[0][0] or 0
    if found > len(MIGRATIONS):
        raise StoreError(
            f"the season's store {name} is of version {found}, written by a newer "
            f"bci-judge; this one reads up to {len(MIGRATIONS)}: upgrade it, or give another store"
        )
    for statements in MIGRATIONS[found:]:
        for statement in statements:
            cursor.execute(statement)
    if found < len(MIGRATIONS):
        cursor.execute("DELETE FROM season_version")
        cursor.execute("INSERT INTO season_version VALUES (?)", (len(MIGRATIONS),))


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
    """A unit as the store has it.

    state: "waiting", "leased", "done" or "held": it failed through the organiser's side too often, or another
    unit of its submission did. ending, reason, report: of its result.
    """

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
    ending: str
    reason: str
    report: str

    @property
    def result(self) -> UnitResult:
        """Of a unit that is done."""
        return UnitResult(
            self.ending, self.reason, self.report, log=self.log, log_sha256=self.log_sha256
        )


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


SUBMISSION = ", ".join(
    {"row": "row_json", "sessions": "sessions_json"}.get(f.name, f.name) for f in fields(Submission)
)
UNIT = ", ".join(f.name for f in fields(UnitState))
ATTEMPT = ", ".join(f.name for f in fields(Attempt))


def submission_values(submission: Submission) -> tuple[Any, ...]:
    plain = {f.name: getattr(submission, f.name) for f in fields(Submission)}
    plain["row"] = json.dumps(submission.row)
    plain["sessions"] = json.dumps(submission.sessions)
    plain["chosen"] = int(submission.chosen)
    return tuple(plain.values())


def read_submissions(cursor: Cursor, which: str, values: Sequence[Any]) -> list[Submission]:
    cursor.execute(f"SELECT {SUBMISSION} FROM submissions {which}", values)
    return [make_submission(row) for row in cursor.fetchall()]


def make_submission(values: Sequence[Any]) -> Submission:
    named = dict(zip((f.name for f in fields(Submission)), values, strict=True))
    named["row"] = json.loads(named["row"])
    named["sessions"] = json.loads(named["sessions"])
    named["chosen"] = bool(named["chosen"])
    return Submission(**named)
