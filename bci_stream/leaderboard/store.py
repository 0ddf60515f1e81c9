"""A store knows contests, teams and runs: an index that can be rebuilt from the run logs."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Protocol

from bci_stream.errors import LogError, RuleError, StoreError
from bci_stream.leaderboard.fold import StoredRun, fold_log
from bci_stream.leaderboard.ranking import LeaderboardRow, Qualifying, rank

LOCK_TIMEOUT_S = 5.0


class Cursor(Protocol):
    """What both databases' cursors can do; parameters stand as `?` in the text."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> object: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Database(Protocol):
    """A place for tables. A transaction is all or nothing, and fails with a StoreError."""

    @property
    def name(self) -> str: ...

    def transaction(self) -> AbstractContextManager[Cursor]: ...

    def close(self) -> None: ...


class SqliteDatabase:
    """A file; WAL lets any number of readers go on while the judge writes."""

    def __init__(self, path: Path, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.name = str(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Transactions are ours to begin and end, so the driver's own are off.
            self._connection = sqlite3.connect(path, timeout=lock_timeout_s, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the store {path} can't be opened: {error}") from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreError(_explain(self.name, error)) from error

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        cursor = self._connection.cursor()
        try:
            # IMMEDIATE: a writer waits for the lock at once instead of failing half-way.
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(_explain(self.name, error)) from error
        finally:
            if self._connection.in_transaction:
                self._connection.rollback()
            cursor.close()

    def close(self) -> None:
        self._connection.close()


def _explain(name: str, error: sqlite3.Error) -> str:
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


VERSION: Final = 1

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

PUT_RUN: Final = """INSERT INTO runs
    (log, contest, log_bytes, team, track, score, row_json, sessions_json)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (log) DO UPDATE SET contest = excluded.contest, log_bytes = excluded.log_bytes,
    team = excluded.team, track = excluded.track, score = excluded.score,
    row_json = excluded.row_json, sessions_json = excluded.sessions_json"""

POSTGRES: Final = ("postgresql://", "postgres://")
ROW_FIELDS: Final = frozenset(field.name for field in fields(LeaderboardRow))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild found: how many logs it took, and which it can't read and why."""

    runs: int
    problems: tuple[str, ...]


class Store:
    """Contests, teams and runs in a database; opening it makes or checks its tables."""

    def __init__(self, database: Database) -> None:
        self._database = database
        try:
            with database.transaction() as cursor:
                for statement in SCHEMA:
                    cursor.execute(statement)
                self._check_version(cursor)
        except StoreError:
            database.close()
            raise

    def _check_version(self, cursor: Cursor) -> None:
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
        """Keep a run; one that was kept before, under the same log, is replaced."""
        with self._database.transaction() as cursor:
            _put(cursor, run)

    def rebuild(
        self, logs: Iterable[Path], contest: str = "", tell: Callable[[Path], None] | None = None
    ) -> Rebuilt:
        """Forget all and read the run logs anew; readers see the old rows until it is done."""
        runs, problems = [], []
        for path in logs:
            if tell is not None:
                tell(path)
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
        """All runs, or those of a contest or track, in the order of their logs' names."""
        wanted = [("contest", contest), ("track", track)]
        given = [(name, value) for name, value in wanted if value is not None]
        where = " AND ".join(f"{name} = ?" for name, _ in given)
        sql = "SELECT log, contest, log_bytes, row_json, sessions_json FROM runs"
        with self._database.transaction() as cursor:
            cursor.execute(
                f"{sql}{' WHERE ' + where if where else ''} ORDER BY log", [v for _, v in given]
            )
            return [_stored(values) for values in cursor.fetchall()]

    def contests(self) -> list[str]:
        with self._database.transaction() as cursor:
            cursor.execute("SELECT name FROM contests ORDER BY name")
            return [name for (name,) in cursor.fetchall()]

    def leaderboard(
        self,
        contest: str | None = None,
        track: str | None = None,
        qualifying: Qualifying | None = None,
    ) -> list[LeaderboardRow]:
        """The ranked rows; a team's best run on a track is the one that counts."""
        return rank(best_runs(run.row for run in self.runs(contest, track)), qualifying)

    def close(self) -> None:
        self._database.close()


def best_runs(rows: Iterable[LeaderboardRow]) -> list[LeaderboardRow]:
    """One row a team and track: the one that ranks first."""
    by_team: dict[tuple[str, str], list[LeaderboardRow]] = {}
    for row in rows:
        by_team.setdefault((row.track, row.team), []).append(row)
    return [rank(group)[0] for group in by_team.values()]


def open_store(where: str) -> Store:
    """A postgresql:// URL opens PostgreSQL; anything else is the path of a SQLite file."""
    if where.startswith(POSTGRES):
        return Store(PostgresDatabase(where))
    return Store(SqliteDatabase(_path(where)))


def exists(where: str) -> bool:
    """Whether a store can be there; a server is asked when it is opened."""
    return where.startswith(POSTGRES) or _path(where).exists()


def _path(where: str) -> Path:
    return Path(where.removeprefix("sqlite:///"))


def _put(cursor: Cursor, run: StoredRun) -> None:
    cursor.execute(
        "INSERT INTO contests (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (run.contest,)
    )
    cursor.execute(
        "INSERT INTO teams (contest, name) VALUES (?, ?) ON CONFLICT (contest, name) DO NOTHING",
        (run.contest, run.row.team),
    )
    row = {name: getattr(run.row, name) for name in sorted(ROW_FIELDS)}
    values = (run.log, run.contest, run.log_bytes, run.row.team, run.row.track, run.row.score)
    cursor.execute(PUT_RUN, (*values, json.dumps(row), json.dumps(run.sessions)))


def _stored(values: tuple[Any, ...]) -> StoredRun:
    log, contest, log_bytes, row_json, sessions_json = values
    row = {name: value for name, value in json.loads(row_json).items() if name in ROW_FIELDS}
    return StoredRun(log, contest, log_bytes, LeaderboardRow(**row), json.loads(sessions_json))


try:
    import psycopg
except ImportError as error:
    raise StoreError(
        "a postgresql:// store needs psycopg; install it with: pip install 'bci-stream[postgres]'"
    ) from error

SETTINGS = f"-c lock_timeout={int(1000 * LOCK_TIMEOUT_S)}"


class PostgresDatabase:
    """The database that a postgresql:// URL names."""

    def __init__(self, url: str, connect_timeout_s: int = 10) -> None:
        self.name = _without_password(url)
        try:
            self._connection = psycopg.connect(
                url, connect_timeout=connect_timeout_s, options=SETTINGS, autocommit=True
            )
        except psycopg.Error as error:
            raise StoreError(f"the store {self.name} can't be opened: {_line(error)}") from error

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                yield _QuestionMarks(cursor)
        except psycopg.Error as error:
            raise StoreError(f"the store {self.name} can't be used: {_line(error)}") from error

    def close(self) -> None:
        self._connection.close()


class _QuestionMarks:
    """psycopg spells a parameter %s; the store's statements spell it ?."""

    def __init__(self, cursor: "psycopg.Cursor[tuple[Any, ...]]") -> None:
        self._cursor = cursor

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> object:
        return self._cursor.execute(sql.replace("?", "%s").encode(), parameters)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._cursor.fetchall()


def _without_password(url: str) -> str:
    info = psycopg.conninfo.conninfo_to_dict(url)
    return f"postgresql://{info.get('host', '')}:{info.get('port', '')}/{info.get('dbname', '')}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
