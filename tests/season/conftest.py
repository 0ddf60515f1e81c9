"""A season's store in both databases, and submissions to put there."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from postgres_server import running_server

from bci_stream.season.storage.schema import Submission
from bci_stream.season.storage.store import SeasonStore, open_season_store


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra `postgres`)")
    with running_server() as url:
        yield url


DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)]


@pytest.fixture(params=DATABASES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "season.sqlite")
    import psycopg

    url: str = request.getfixturevalue("postgres_url")
    name = f"season_{next(NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{url.rpartition('/')[0]}/{name}"


NUMBERS = itertools.count()


@pytest.fixture
def store(store_url: str) -> Iterator[SeasonStore]:
    opened = open_season_store(store_url)
    yield opened
    opened.close()


def admit_all(_earlier: Sequence[Submission]) -> None:
    """No quota."""


def put(
    store: SeasonStore,
    team: str,
    at: float = 0.0,
    admit: Callable[[Sequence[Submission]], None] = admit_all,
    phase: str = "open",
) -> Submission:
    """Add a submission of a team."""

    def make(number: int) -> Submission:
        return Submission(number, team, "erp", phase, "team.zip", 10, "0" * 64, at)

    return store.add(make, admit, team)
