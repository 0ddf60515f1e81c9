"""The organiser's tables in a season's store: announcements, dates of phases, applications, actions."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Literal

from bci_stream.errors import StoreError
from bci_stream.leaderboard.store import Cursor, Database, PostgresDatabase
from bci_stream.season.storage.schema import migrate
from bci_stream.season.storage.unit_rows import log_action

MOST_APPLICATIONS = 500
"""That wait for the organiser."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A line that all pages show; at: seconds since 1970."""

    id: int
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Application:
    """A team that asked to take part; state: "waiting", "approved", "claimed" or "refused".

    code_sha256: of the code that the applicants were shown, with which they fetch their team's file.
    """

    id: int
    at: float
    team: str
    name: str
    contact: str
    code_sha256: str
    state: Literal["waiting", "approved", "claimed", "refused"]


_APPLICATION = ", ".join(f.name for f in fields(Application))


class OrganiserRecords:
    """The tables of the organiser in a database; opening it makes or upgrades all tables."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_postgres = isinstance(database, PostgresDatabase)
        try:
            with self._transaction() as cursor:
                migrate(cursor, database.name)
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

    def close(self) -> None:
        self._database.close()

    # --- actions ------------------------------------------------------------------------------

    def actions(self, most: int = 50) -> list[tuple[float, str, str, str]]:
        """What the organiser did: (seconds since 1970, who, action, about), the latest first."""
        with self._database.reading() as cursor:
            cursor.execute(
                f"SELECT at, who, action, about FROM actions ORDER BY at DESC LIMIT {most}"
            )
            return [(at, who, action, about) for at, who, action, about in cursor.fetchall()]

    def log_action(self, who: str, action: str, about: str, now: float) -> None:
        """Record an action that changes nothing else in the store."""
        with self._transaction() as cursor:
            log_action(cursor, now, who, action, about)

    # --- announcements and dates --------------------------------------------------------------

    def announcements(self) -> list[Announcement]:
        """Those that are shown, the latest first."""
        with self._database.reading() as cursor:
            cursor.execute("SELECT id, at, text FROM announcements ORDER BY id DESC")
            return [Announcement(*row) for row in cursor.fetchall()]

    def announce(self, text: str, who: str, now: float) -> None:
        with self._transaction() as cursor:
            cursor.execute("SELECT coalesce(max(id), 0) + 1 FROM announcements")
            number = cursor.fetchall()[0][0]
            cursor.execute("INSERT INTO announcements VALUES (?, ?, ?)", (number, now, text))
            log_action(cursor, now, who, "announce", text)

    def remove_announcement(self, number: int, who: str, now: float) -> bool:
        """False if there is none of this number."""
        with self._transaction() as cursor:
            cursor.execute("SELECT text FROM announcements WHERE id = ?", (number,))
            found = cursor.fetchall()
            cursor.execute("DELETE FROM announcements WHERE id = ?", (number,))
            if found:
                log_action(cursor, now, who, "remove announcement", found[0][0])
            return bool(found)

    def phase_dates(self) -> dict[str, tuple[str, str]]:
        """(opens, closes) of phases as the organiser changed them, ISO 8601; empty: none."""
        with self._database.reading() as cursor:
            cursor.execute("SELECT phase, opens, closes FROM phase_dates")
            return {phase: (opens, closes) for phase, opens, closes in cursor.fetchall()}

    def set_phase_dates(self, phase: str, opens: str, closes: str, who: str, now: float) -> None:
        with self._transaction() as cursor:
            cursor.execute(
                "INSERT INTO phase_dates (phase, opens, closes) VALUES (?, ?, ?) "
                "ON CONFLICT (phase) DO UPDATE SET opens = excluded.opens, closes = excluded.closes",
                (phase, opens, closes),
            )
            about = f"phase {phase}: {opens or 'no start'} to {closes or 'no end'}"
            log_action(cursor, now, who, "dates", about)

    # --- applications -------------------------------------------------------------------------

    def apply(self, team: str, name: str, contact: str, code_sha256: str, now: float) -> int:
        """Add an application; returns its number. Raises StoreError if the team waits or is in already."""
        with self._transaction() as cursor:
            cursor.execute(
                "SELECT count(*), sum(CASE WHEN lower(team) = lower(?) THEN 1 ELSE 0 END) "
                "FROM applications WHERE state <> 'refused'",
                (team,),
            )
            _, same = cursor.fetchall()[0]
            if same:
                raise StoreError(f"there is an application of a team {team!r} already")
            cursor.execute("SELECT count(*) FROM applications WHERE state = 'waiting'")
            if cursor.fetchall()[0][0] >= MOST_APPLICATIONS:
                raise StoreError("too many applications wait for the organiser; try again later")
            cursor.execute("SELECT coalesce(max(id), 0) + 1 FROM applications")
            number: int = cursor.fetchall()[0][0]
            cursor.execute(
                f"INSERT INTO applications ({_APPLICATION}) VALUES (?, ?, ?, ?, ?, ?, 'waiting')",
                (number, now, team, name, contact, code_sha256),
            )
            return number

    def applications(self) -> list[Application]:
        with self._database.reading() as cursor:
            cursor.execute(f"SELECT {_APPLICATION} FROM applications ORDER BY id")
            return [Application(*row) for row in cursor.fetchall()]

    def decide(self, number: int, state: str, who: str, now: float) -> Application:
        """Approve or refuse an application that waits. Raises StoreError for another one."""
        with self._transaction() as cursor:
            cursor.execute(
                f"SELECT {_APPLICATION} FROM applications WHERE id = ? AND state = 'waiting'",
                (number,),
            )
            found = cursor.fetchall()
            if not found:
                raise StoreError(f"no application {number} waits for the organiser")
            cursor.execute("UPDATE applications SET state = ? WHERE id = ?", (state, number))
            application = Application(*found[0])
            log_action(cursor, now, who, state, f"application {number}: team {application.team}")
            return application

    def claim(self, code_sha256: str) -> Application | None:
        """The application of a code, as it was; an approved one is claimed from now on."""
        with self._transaction() as cursor:
            cursor.execute(
                f"SELECT {_APPLICATION} FROM applications WHERE code_sha256 = ?", (code_sha256,)
            )
            found = cursor.fetchall()
            if not found:
                return None
            application = Application(*found[0])
            if application.state == "approved":
                cursor.execute(
                    "UPDATE applications SET state = 'claimed' WHERE id = ?", (application.id,)
                )
            return application
