"""The season's store: submissions, their units and attempts, in SQLite or PostgreSQL.

Unlike the leaderboard's store it can't be rebuilt from run logs: back it up. Each change is one transaction,
so that a process that is killed leaves no half of it. A unit is leased to one worker for a time; a result
counts only from the attempt that holds the lease, and so each unit counts once.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from typing import Any, Final

from bci_stream.errors import StoreError
from bci_stream.leaderboard.store import (
    POSTGRES,
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
from bci_stream.season.storage.records import OrganiserRecords
from bci_stream.season.storage.schema import (
    ATTEMPT,
    RUN,
    SUBMISSION,
    Attempt,
    Submission,
    UnitLease,
    UnitResult,
    UnitState,
    make_submission,
    read_submissions,
    submission_values,
)
from bci_stream.season.storage.unit_rows import (
    OF_UNIT,
    SET_STAGE,
    add_unit,
    end_attempt,
    end_leases,
    hold,
    holds,
    log_action,
    next_lease,
    note_late,
    read_queues,
    read_units,
    set_pending,
    take_check,
    take_run,
    wait_again,
)

_SHORT: Final = SUBMISSION.replace("report,", "'',").replace("sessions_json", "'[]'")
"""The columns of a submission without its texts: thousands of rows are fast."""


def open_season_store(where: str) -> "SeasonStore":
    """A postgresql:// URL opens PostgreSQL; anything else is the path of a SQLite file."""
    if where.startswith(POSTGRES):
        return SeasonStore(PostgresDatabase(where))
    return SeasonStore(SqliteDatabase(store_path(where), durable=True))


class SeasonStore(OrganiserRecords):
    """Submissions, units and attempts in a database, and what the organiser wrote."""

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
            admit(read_submissions(cursor, "WHERE team = ? ORDER BY id", (team,)))
            cursor.execute("SELECT coalesce(max(id), 0) + 1 FROM submissions")
            new = make(cursor.fetchall()[0][0])
            marks = ", ".join("?" for _ in fields(Submission))
            cursor.execute(
                f"INSERT INTO submissions ({SUBMISSION}) VALUES ({marks})", submission_values(new)
            )
            add_unit(cursor, new, CHECK)
        return new

    def submission(self, number: int) -> Submission | None:
        with self._database.reading() as cursor:
            found = read_submissions(cursor, "WHERE id = ?", (number,))
        return found[0] if found else None

    def submissions(
        self, *, team: str | None = None, phase: str | None = None, track: str | None = None
    ) -> list[Submission]:
        """All, or those of a team, phase or track, in the order of arrival."""
        wanted = {"team": team, "phase": phase, "track": track}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(f'{name} = ?' for name in given)} " if given else ""
        with self._database.reading() as cursor:
            return read_submissions(cursor, f"{where}ORDER BY id", tuple(given.values()))

    def results(self, phase: str, track: str) -> list[Submission]:
        """Those of a phase and track that have a score, without reports and subjects: thousands are fast."""
        sql = (
            f"SELECT {_SHORT} FROM submissions WHERE phase = ? AND track = ? AND score IS NOT NULL"
        )
        with self._database.reading() as cursor:
            cursor.execute(f"{sql} ORDER BY id", (phase, track))
            return [make_submission(row) for row in cursor.fetchall()]

    def results_version(self, phase: str, track: str) -> tuple[Any, ...]:
        """Changes whenever `results` may have changed."""
        with self._database.reading() as cursor:
            cursor.execute(
                "SELECT count(score), max(ended), sum(chosen * id) FROM submissions "
                "WHERE phase = ? AND track = ?",
                (phase, track),
            )
            return cursor.fetchall()[0]

    def stages(self) -> dict[Stage, int]:
        """How many submissions are at each stage."""
        with self._database.reading() as cursor:
            cursor.execute("SELECT stage, count(*) FROM submissions GROUP BY stage ORDER BY stage")
            return dict(cursor.fetchall())

    def latest(self, most: int, fault: FaultSide | None = None) -> list[Submission]:
        """The last ones, the latest first, without reports and subjects: all, or those with a fault."""
        which, values = ("WHERE fault = ? ", (fault,)) if fault is not None else ("", ())
        with self._database.reading() as cursor:
            cursor.execute(
                f"SELECT {_SHORT} FROM submissions {which}ORDER BY id DESC LIMIT {most}", values
            )
            return [make_submission(row) for row in cursor.fetchall()]

    def uploads(self) -> set[int]:
        """The ids of all submissions."""
        with self._database.reading() as cursor:
            cursor.execute("SELECT id FROM submissions")
            return {number for (number,) in cursor.fetchall()}

    def choose(self, number: int) -> None:
        """Mark a submission as the one of its team, phase and track that the team wants to count."""
        with self._transaction() as cursor:
            (chosen,) = read_submissions(cursor, "WHERE id = ?", (number,))
            of_team = (chosen.team, chosen.phase, chosen.track)
            cursor.execute(
                "UPDATE submissions SET chosen = CASE WHEN id = ? THEN 1 ELSE 0 END "
                "WHERE team = ? AND phase = ? AND track = ?",
                (number, *of_team),
            )

    def disqualify(self, number: int, who: str, reason: str, now: float) -> None:
        """Let a submission count for nothing; a unit of it that runs is late from now on."""
        with self._transaction() as cursor:
            cursor.execute(SET_STAGE, ("disqualified", "team", reason, now, number))
            cursor.execute("UPDATE units SET state = 'done' WHERE submission = ?", (number,))
            log_action(cursor, now, who, "disqualify", f"submission {number}: {reason}")

    def retry(self, number: int, who: str, now: float) -> None:
        """Do a submission again now that failed, or waits, through the organiser's side.

        Raises StoreError for any other submission.
        """
        with self._transaction() as cursor:
            (found,) = read_submissions(cursor, "WHERE id = ?", (number,))
            if found.fault != "organiser":
                raise StoreError(
                    f"submission {number} is {found.stage}, not through the organiser's side: only what "
                    "failed there is done again"
                )
            units = read_units(cursor, number)
            which = "state IN ('waiting', 'held')"
            if all(unit.state == "done" for unit in units):  # its logs could not be read
                which = f"number >= {RUN}"
            cursor.execute(
                "UPDATE units SET failures = 0, not_before = 0, state = 'waiting' "
                f"WHERE submission = ? AND {which}",
                (number,),
            )
            set_pending(cursor, number)
            log_action(cursor, now, who, "retry", f"submission {number}")

    # --- units --------------------------------------------------------------------------------

    def queues(self) -> list[TeamQueue]:
        """The teams that have waiting units."""
        with self._database.reading() as cursor:
            return read_queues(cursor, float("inf"))

    def units(self, submission: int | None = None) -> list[UnitState]:
        with self._database.reading() as cursor:
            return read_units(cursor, submission)

    def waiting_before(self, submission: Submission) -> int:
        """How many units of its team wait that are begun before the first of a submission."""
        with self._database.reading() as cursor:
            cursor.execute(
                "SELECT count(*) FROM units WHERE state = 'waiting' AND team = ? AND submission < ?",
                (submission.team, submission.id),
            )
            count: int = cursor.fetchall()[0][0]
            return count

    def attempts(self, submission: int | None = None) -> list[Attempt]:
        where, values = ("WHERE submission = ? ", (submission,)) if submission else ("", ())
        sql = f"SELECT {ATTEMPT} FROM attempts {where}ORDER BY submission, number, attempt"
        with self._database.reading() as cursor:
            cursor.execute(sql, values)
            return [Attempt(*row) for row in cursor.fetchall()]

    def running(self) -> list[Attempt]:
        """The attempts that hold a lease."""
        sql = (
            f"SELECT {', '.join(f'a.{name}' for name in ATTEMPT.split(', '))} FROM units u JOIN attempts a "
            "ON a.submission = u.submission AND a.number = u.number AND a.attempt = u.attempt "
            "WHERE u.state = 'leased' ORDER BY a.began"
        )
        with self._database.reading() as cursor:
            cursor.execute(sql)
            return [Attempt(*row) for row in cursor.fetchall()]

    def failed_attempts(self, outcomes: Collection[str], most: int) -> list[Attempt]:
        """The last ones that ended with one of these outcomes, the latest first."""
        sql = (
            f"SELECT {ATTEMPT} FROM attempts WHERE outcome IN ({', '.join('?' for _ in outcomes)}) "
            f"ORDER BY began DESC LIMIT {most}"
        )
        with self._database.reading() as cursor:
            cursor.execute(sql, tuple(outcomes))
            return [Attempt(*row) for row in cursor.fetchall()]

    def lease(
        self, worker: str, now: float, lease_s: float, most_a_team: int
    ) -> tuple[UnitLease, Submission] | None:
        """Lease the next unit in the fair order, or None if none is ready."""
        with self._transaction() as cursor:
            team = next_team(read_queues(cursor, now), most_a_team)
            if team is None:
                return None
            lease = next_lease(cursor, team, worker, now, now + lease_s)
            stage = "checking" if lease.number == CHECK else "running"
            cursor.execute(
                "UPDATE submissions SET stage = ? WHERE id = ?", (stage, lease.submission)
            )
            return lease, read_submissions(cursor, "WHERE id = ?", (lease.submission,))[0]

    def renew(self, lease: UnitLease, until: float) -> bool:
        """Extend a lease; False if it was lost."""
        with self._transaction() as cursor:
            if not holds(cursor, lease):
                return False
            cursor.execute(
                f"UPDATE units SET lease_until = ? WHERE {OF_UNIT}",
                (until, lease.submission, lease.number),
            )
            return True

    def finish(
        self,
        lease: UnitLease,
        result: UnitResult,
        now: float,
        runs: int = 1,
        keep: Callable[[], None] = lambda: None,
    ) -> bool:
        """Take a result; False if the lease was lost: it is recorded as late, and does not count.

        runs: how many units a submission is run in, once its check has passed. The last result of several
        leaves the submission to `judge`. keep: moves the log to its place; called only if the result counts,
        so that a late one does not replace the log that counted. A server that is killed between this and
        the end of the transaction runs the unit again.
        """
        with self._transaction() as cursor:
            if not holds(cursor, lease):
                note_late(cursor, lease, now, result.ending, result.log_sha256)
                return False
            keep()
            end_attempt(cursor, lease, now, result.ending, result.reason, result.log_sha256)
            cursor.execute(
                "UPDATE units SET state = 'done', log = ?, log_sha256 = ?, ending = ?, reason = ?, "
                f"report = ? WHERE {OF_UNIT}",
                (
                    result.log,
                    result.log_sha256,
                    result.ending,
                    result.reason,
                    result.report,
                    lease.submission,
                    lease.number,
                ),
            )
            (submission,) = read_submissions(cursor, "WHERE id = ?", (lease.submission,))
            units = read_units(cursor, lease.submission)
            if lease.number == CHECK:
                take_check(cursor, submission, result, runs, now)
            elif units[-1].number == RUN:
                take_run(cursor, submission, result, now)
            elif any(unit.state in ("waiting", "leased") for unit in units):
                wait_again(cursor, lease.submission)
            return True

    def to_judge(self, number: int | None = None) -> list[Submission]:
        """The submissions of several runs that are all done, and that have no result yet: all, or one."""
        which, values = ("id = ? AND ", (number, RUN)) if number is not None else ("", (RUN,))
        with self._database.reading() as cursor:
            return read_submissions(
                cursor,
                f"WHERE {which}ended IS NULL AND EXISTS (SELECT 1 FROM units u WHERE u.submission = id "
                "AND u.number > ?) AND NOT EXISTS (SELECT 1 FROM units u WHERE u.submission = id "
                "AND u.state <> 'done') ORDER BY id",
                values,
            )

    def hold(self, number: int, reason: str, now: float) -> None:
        """Fail a submission through the organiser's side; `retry` does it again."""
        with self._transaction() as cursor:
            hold(cursor, number, reason, now)

    def judge(self, number: int, result: UnitResult, now: float) -> bool:
        """Take the result of all runs of a submission; False if it has ended already."""
        with self._transaction() as cursor:
            (submission,) = read_submissions(cursor, "WHERE id = ?", (number,))
            if submission.ended is not None:
                return False
            take_run(cursor, submission, result, now)
            return True

    def give_back(self, lease: UnitLease, reason: str, now: float) -> bool:
        """Try a unit again later that failed through the organiser's side; False if the lease was lost."""
        with self._transaction() as cursor:
            if not holds(cursor, lease):
                note_late(cursor, lease, now, reason, "")
                return False
            end_attempt(cursor, lease, now, "stopped", reason, "")
            cursor.execute(
                f"SELECT failures FROM units WHERE {OF_UNIT}", (lease.submission, lease.number)
            )
            failures = cursor.fetchall()[0][0] + 1
            cursor.execute(
                f"UPDATE units SET state = 'waiting', failures = ?, not_before = ? WHERE {OF_UNIT}",
                (failures, now + retry_delay_s(failures), lease.submission, lease.number),
            )
            if failures < MOST_ATTEMPTS:
                wait_again(cursor, lease.submission, "organiser", reason)
            else:
                hold(cursor, lease.submission, reason, now)
            return True

    def expire(self, now: float) -> list[UnitLease]:
        """End the leases that have run out; their units wait again."""
        with self._transaction() as cursor:
            return end_leases(cursor, now, "AND lease_until < ?", (now,), "expired")

    def release(self, worker: str, now: float) -> list[UnitLease]:
        """End the leases of workers of this name, which are known to be gone."""
        with self._transaction() as cursor:
            return end_leases(cursor, now, "AND worker = ?", (worker,), "lost")
