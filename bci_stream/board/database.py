"""A database is where a store keeps its tables: SQLite in a file, or PostgreSQL behind a URL."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from bci_stream.board.errors import StoreError

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
