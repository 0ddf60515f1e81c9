"""The store: an index of contests, teams and runs that can be rebuilt from the run logs at any time.

It is a SQLite file, or a PostgreSQL database behind a postgresql:// URL.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from bci_stream.errors import LogError, RuleError, StoreError
from bci_stream.leaderboard.fold import StoredRun, fold_log
from bci_stream.leaderboard.ranking import COLUMNS, LeaderboardRow, Qualifying, best_runs, rank

LOCK_TIMEOUT_S: Final = 5.0
CONNECT_TIMEOUT_S: Final = 10
VERSION: Final = 1
POSTGRES: Final = ("postgresql://", "postgres://")

SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS store_version (version INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS contests (name TEXT PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS teams (
        contest TEXT NOT NULL REFERENCES contests (name), name TEXT NOT NULL,
        PRIMARY KEY (contest, name))""",
    """CREATE TABLE IF NOT EXISTS runs (
        log TEXT PRIMARY KEY, contest TEXT NOT NULL, log_bytes BIGINT NOT NULL,
        team TEXT NOT NULL, track TEXT NOT NULL, score DOUBLE PRECISION NOT NULL,
        row_json TEXT NOT NULL, sessions_json TEXT NOT NULL,
        FOREIGN KEY (contest, team) REFERENCES teams (contest, name))""",
    "CREATE INDEX IF NOT EXISTS runs_by_track ON runs (contest, track, score)",
)

PUT_CONTEST: Final = "INSERT INTO contests (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
PUT_TEAM: Final = """INSERT INTO teams (contest, name) VALUES (?, ?)
    ON CONFLICT (contest, name) DO NOTHING"""
PUT_RUN: Final = """INSERT INTO runs
    (log, contest, log_bytes, team, track, score, row_json, sessions_json)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (log) DO UPDATE SET contest = excluded.contest, log_bytes = excluded.log_bytes,
    team = excluded.team, track = excluded.track, score = excluded.score,
    row_json = excluded.row_json, sessions_json = excluded.sessions_json"""


def open_store(where: str) -> "Store":
    """A postgresql:// URL opens PostgreSQL; anything else is the path of a SQLite file."""
    if where.startswith(POSTGRES):
        return Store(PostgresDatabase(where))
    return Store(SqliteDatabase(store_path(where)))


def store_exists(where: str) -> bool:
    """Whether the file exists; always True for PostgreSQL, which answers when it is opened."""
    return where.startswith(POSTGRES) or store_path(where).exists()


def store_path(where: str) -> Path:
    """The path of a SQLite store, with or without sqlite:/// in front."""
    return Path(where.removeprefix("sqlite:///"))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild: how many runs it stored, and why it left logs out."""

    runs: int
    problems: tuple[str, ...]


class Store:
    """Contests, teams and runs in a database; opening it makes or checks its tables."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        try:
            with database.transaction() as cursor:
                for statement in SCHEMA:
                    cursor.execute(statement)
                self._check_version(cursor)
        except StoreError:
            database.close()
            raise

    def _check_version(self, cursor: "Cursor") -> None:
        cursor.execute("SELECT max(version) FROM store_version")
        found = cursor.fetchall()[0][0]
        if found is None:
            cursor.execute("INSERT INTO store_version VALUES (?)", (VERSION,))
        elif found > VERSION:
            raise StoreError(
                f"the store {self._database.name} is of version {found}, written by a newer "
                f"bci-judge; this one reads up to {VERSION}: upgrade it, or give another store"
            )

    def put(self, run: StoredRun) -> None:
        """Store a run; it replaces one with the same log."""
        with self._database.transaction() as cursor:
            _put(cursor, run)

    def rebuild(self, logs: Iterable[Path], contest: str = "") -> Rebuilt:
        """Replace everything by these run logs; readers see the old rows until it is done."""
        runs, problems = [], []
        for path in logs:
            try:
                runs.append(fold_log(path, contest))
            except (LogError, RuleError, OSError) as error:
                problems.append(str(error) if str(path) in str(error) else f"{path}: {error}")
        with self._database.transaction() as cursor:
            for table in ("runs", "teams", "contests"):
                cursor.execute(f"DELETE FROM {table}")
            for run in runs:
                _put(cursor, run)
        return Rebuilt(len(runs), tuple(problems))

    def runs(self, contest: str | None = None, track: str | None = None) -> list[StoredRun]:
        """All runs, or those of a contest or track, in the order of their logs' paths."""
        wanted = {"contest": contest, "track": track}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(f'{name} = ?' for name in given)}" if given else ""
        sql = f"SELECT log, contest, log_bytes, row_json, sessions_json FROM runs{where}"
        with self._database.reading() as cursor:
            cursor.execute(f"{sql} ORDER BY log", list(given.values()))
            return [_stored(values) for values in cursor.fetchall()]

    def leaderboard(
        self,
        contest: str | None = None,
        track: str | None = None,
        qualifying: Qualifying | None = None,
    ) -> list[LeaderboardRow]:
        """The ranked rows; a team's best run on a track counts."""
        return rank(best_runs(run.row for run in self.runs(contest, track)), qualifying)

    def close(self) -> None:
        self._database.close()


def _put(cursor: "Cursor", run: StoredRun) -> None:
    cursor.execute(PUT_CONTEST, (run.contest,))
    cursor.execute(PUT_TEAM, (run.contest, run.row.team))
    values = (run.log, run.contest, run.log_bytes, run.row.team, run.row.track, run.row.score)
    row = json.dumps(asdict(run.row), sort_keys=True)
    cursor.execute(PUT_RUN, (*values, row, json.dumps(run.sessions)))


def _stored(values: tuple[Any, ...]) -> StoredRun:
    log, contest, log_bytes, row_json, sessions_json = values
    row = {name: value for name, value in json.loads(row_json).items() if name in COLUMNS}
    return StoredRun(log, contest, log_bytes, LeaderboardRow(**row), json.loads(sessions_json))


class Cursor(Protocol):
    """What both databases' cursors can do; a parameter is written `?`."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> object: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Database(Protocol):
    """A connection. A transaction is committed as a whole or not at all; it raises StoreError."""

    @property
    def name(self) -> str: ...

    def transaction(self) -> AbstractContextManager[Cursor]: ...

    def reading(self) -> AbstractContextManager[Cursor]:
        """A transaction that only reads: it does not wait for one that writes."""

    def close(self) -> None: ...


class SqliteDatabase:
    """A SQLite file in WAL mode: readers do not wait while the judge writes.

    durable: a transaction is on disk when it is over, also if the machine loses its power.
    """

    def __init__(
        self, path: Path, lock_timeout_s: float = LOCK_TIMEOUT_S, *, durable: bool = False
    ) -> None:
        self.name = str(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # isolation_level None: this class begins and ends the transactions, not the driver.
            self._connection = sqlite3.connect(path, timeout=lock_timeout_s, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the store {path} can't be opened: {error}") from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreError(_describe(self.name, error)) from error

    def transaction(self) -> AbstractContextManager[Cursor]:
        # IMMEDIATE: a writer waits for the lock here, instead of failing later.
        return self._begun("BEGIN IMMEDIATE")

    def reading(self) -> AbstractContextManager[Cursor]:
        return self._begun("BEGIN")

    @contextmanager
    def _begun(self, statement: str) -> Iterator[Cursor]:
        cursor = self._connection.cursor()
        try:
            cursor.execute(statement)
            yield cursor
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(_describe(self.name, error)) from error
        finally:
            if self._connection.in_transaction:
                self._connection.rollback()
            cursor.close()

    def close(self) -> None:
        self._connection.close()


def _describe(name: str, error: sqlite3.Error) -> str:
    match error.sqlite_errorname if hasattr(error, "sqlite_errorname") else "":
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return (
                f"the store {name} is locked by another program (waited {LOCK_TIMEOUT_S:g} s); "
                "close it there, or give another store; the run logs are complete without it"
            )
        case "SQLITE_FULL":
            return (
                f"the store {name} can't be written: the disk is full; free some space and rebuild "
                "it from the run logs"
            )
        case "SQLITE_NOTADB" | "SQLITE_CORRUPT":
            return (
                f"{name} is no readable store ({error}); give another path or, if it was one, "
                "move it away and rebuild it from the run logs"
            )
    return f"the store {name} can't be used: {error}"


class PostgresDatabase:
    """The PostgreSQL database of a postgresql:// URL; psycopg is loaded when it is opened."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise StoreError(
                "a postgresql:// store needs psycopg; "
                "install it with: pip install 'bci-stream[postgres]'"
            ) from error
        self._error = psycopg.Error
        facts = psycopg.conninfo.conninfo_to_dict(url)  # the name must not hold the password
        host, port, name = (facts.get(key, "") for key in ("host", "port", "dbname"))
        self.name = f"postgresql://{host}:{port}/{name}"
        settings = f"-c lock_timeout={int(1000 * LOCK_TIMEOUT_S)}"
        try:
            self._connection = psycopg.connect(
                url, connect_timeout=CONNECT_TIMEOUT_S, options=settings, autocommit=True
            )
        except psycopg.Error as error:
            raise self._failure("opened", error) from error

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                yield _PostgresCursor(cursor)
        except self._error as error:
            raise self._failure("used", error) from error

    def reading(self) -> AbstractContextManager[Cursor]:
        return self.transaction()

    def close(self) -> None:
        self._connection.close()

    def _failure(self, what: str, error: Exception) -> StoreError:
        return StoreError(f"the store {self.name} can't be {what}: {' '.join(str(error).split())}")


class _PostgresCursor:
    """psycopg writes a parameter %s; the store's statements write it ?."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> object:
        return self._cursor.execute(sql.replace("?", "%s").encode(), parameters)

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._cursor.fetchall()
        return rows
