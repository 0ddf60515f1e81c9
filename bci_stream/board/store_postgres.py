"""The store in PostgreSQL, for organisers who have a server; needs psycopg."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bci_stream.board.database import LOCK_TIMEOUT_S, Cursor
from bci_stream.board.errors import StoreError

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
