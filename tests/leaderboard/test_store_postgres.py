"""The store in a real PostgreSQL server, started here where there is one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres_server import free_port, running_server

from bci_stream.errors import StoreError
from bci_stream.leaderboard.fold import fold_log
from bci_stream.leaderboard.store import Store, open_store
from scripts.simulated_runs import SimulatedRun

pytestmark = pytest.mark.slow

pytest.importorskip("psycopg", reason="psycopg is not installed (extra `postgres`)")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def store(server: str) -> Iterator[Store]:
    opened = open_store(server)
    opened.rebuild([])
    yield opened
    opened.close()


@pytest.fixture
def logs(write_log: Callable[..., Path]) -> list[Path]:
    teams = {"alpha": 0.95, "O'Brien; ?%s": 0.4}
    return [
        write_log(str(number), SimulatedRun("mi", team, skill, trials=3, seed=3))
        for number, (team, skill) in enumerate(teams.items())
    ]


def test_both_databases_hold_the_same_after_the_same_logs(
    store: Store, logs: list[Path], tmp_path: Path
) -> None:
    embedded = open_store(str(tmp_path / "contest.sqlite"))
    for opened in (store, embedded):
        assert opened.rebuild(logs, "finals").runs == 2
    assert store.runs() == embedded.runs()
    assert store.leaderboard("finals", "mi") == embedded.leaderboard("finals", "mi")
    embedded.close()


def test_putting_a_run_again_replaces_it(store: Store, logs: list[Path]) -> None:
    store.put(fold_log(logs[0]))
    store.put(fold_log(logs[0]))
    assert len(store.runs()) == 1


def test_a_second_judge_reads_what_the_first_one_wrote(
    store: Store, logs: list[Path], server: str
) -> None:
    store.put(fold_log(logs[0]))
    other = open_store(server)
    assert other.runs() == store.runs()
    other.close()


def test_a_store_from_a_newer_version_is_refused(store: Store, server: str) -> None:
    with store._database.transaction() as cursor:
        cursor.execute("UPDATE store_version SET version = 99")
    with pytest.raises(StoreError, match=r"version 99.*newer"):
        open_store(server)
    with store._database.transaction() as cursor:
        cursor.execute("UPDATE store_version SET version = 1")


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StoreError, match="can't be opened") as caught:
        open_store(f"postgresql://judge:secret@127.0.0.1:{free_port()}/contest")
    assert "secret" not in str(caught.value)
