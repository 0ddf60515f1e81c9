"""The store: an index of runs that can be rebuilt from their logs at any time."""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bci_stream.errors import StoreError
from bci_stream.leaderboard.fold import StoredRun, fold_log
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.store import SqliteDatabase, Store, open_store
from scripts.simulated_runs import SimulatedRun


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "contest.sqlite"))
    yield opened
    opened.close()


@pytest.fixture
def logs(write_log: Callable[..., Path]) -> list[Path]:
    skills = {"alpha": 0.95, "beta": 0.4}
    return [
        write_log(f"{track}-{team}", SimulatedRun(track, team, skill, trials=4, seed=3))
        for track in ("mi", "erp")
        for team, skill in skills.items()
    ]


def test_a_run_comes_back_as_it_was_put(store: Store, logs: list[Path]) -> None:
    run = fold_log(logs[0], "finals")
    store.put(run)
    assert store.runs() == [run]


def test_putting_a_run_again_replaces_it(store: Store, logs: list[Path]) -> None:
    store.put(fold_log(logs[0], "finals"))
    logs[0].write_text(logs[1].read_text())
    store.put(fold_log(logs[0], "finals"))
    assert [run.row.team for run in store.runs()] == ["beta"]


def test_a_rebuilt_store_equals_one_that_was_filled_run_by_run(
    store: Store, logs: list[Path], tmp_path: Path
) -> None:
    for path in logs:
        store.put(fold_log(path, "finals"))
    other = open_store(str(tmp_path / "other.sqlite"))
    assert other.rebuild(logs, "finals").runs == 4
    assert other.runs() == store.runs()
    assert other.leaderboard() == store.leaderboard()
    other.close()


def test_a_rebuild_forgets_what_has_no_log_and_names_what_it_cannot_read(
    store: Store, logs: list[Path], tmp_path: Path
) -> None:
    store.rebuild(logs, "finals")
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{")
    rebuilt = store.rebuild([logs[0], broken], "finals")
    assert rebuilt.runs == 1
    assert len(store.runs()) == 1
    assert "broken.jsonl" in rebuilt.problems[0]
    assert "line 1" in rebuilt.problems[0]


def test_the_leaderboard_ranks_each_track_and_draws_the_line(
    store: Store, logs: list[Path]
) -> None:
    store.rebuild(logs, "finals")
    rows = store.leaderboard(qualifying=Qualifying(top=1))
    assert [(r.track, r.team, r.rank, r.qualifies) for r in rows] == [
        ("erp", "alpha", 1, True), ("erp", "beta", 2, False),
        ("mi", "alpha", 1, True), ("mi", "beta", 2, False),
    ]  # fmt: skip
    assert {row.track for row in store.leaderboard(track="mi")} == {"mi"}
    assert store.leaderboard(contest="other") == []


def test_a_teams_best_run_is_the_one_that_counts(
    store: Store, write_log: Callable[..., Path]
) -> None:
    paths = [
        write_log(str(skill), SimulatedRun("mi", "alpha", skill, trials=5, seed=3))
        for skill in (0.3, 1.0, 0.5)
    ]
    store.rebuild(paths)
    best = max(run.row.score for run in store.runs())
    assert [row.score for row in store.leaderboard()] == [best]
    assert len(store.runs()) == 3


def test_it_is_kept_in_write_ahead_mode_so_that_readers_never_wait(tmp_path: Path) -> None:
    path = tmp_path / "contest.sqlite"
    open_store(str(path)).close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_reader_sees_the_old_rows_until_a_rebuild_is_done(
    store: Store, logs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.rebuild(logs[:1])
    reader = sqlite3.connect(tmp_path / "contest.sqlite")
    counted = []

    def counting_fold(path: Path, contest: str) -> StoredRun:
        counted.append(reader.execute("SELECT count(*) FROM runs").fetchone()[0])
        return fold_log(path, contest)

    monkeypatch.setattr("bci_stream.leaderboard.store.fold_log", counting_fold)
    store.rebuild(logs)
    assert counted == [1, 1, 1, 1]
    assert reader.execute("SELECT count(*) FROM runs").fetchone()[0] == 4
    reader.close()


def test_an_error_half_way_leaves_the_old_rows(
    store: Store, logs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.rebuild(logs[:2])
    before = store.runs()
    monkeypatch.setattr("bci_stream.leaderboard.store.PUT_RUN", "INSERT INTO nowhere VALUES (1)")
    with pytest.raises(StoreError):
        store.rebuild(logs)
    assert store.runs() == before


def test_a_locked_store_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "contest.sqlite"
    open_store(str(path)).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"contest\.sqlite is locked by another program"):
        Store(SqliteDatabase(path, lock_timeout_s=0.01))
    holder.close()


def test_a_store_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "contest.sqlite"
    open_store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE store_version SET version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"version 99.*newer bci-judge.*up to 1"):
        open_store(str(path))
    assert path.read_bytes() == before


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like one " * 40)
    with pytest.raises(StoreError, match=r"notes\.txt is no readable store"):
        open_store(str(path))


def test_a_full_disk_is_said_to_be_full(store: Store, logs: list[Path]) -> None:
    run = fold_log(logs[0])
    with store._database.transaction() as cursor:
        cursor.execute("PRAGMA page_count")
        pages = cursor.fetchall()[0][0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
    big = [{"subject": "S" * 100_000, "score": 0.0}]
    with pytest.raises(StoreError, match="disk is full"):
        store.put(type(run)(run.log, run.contest, run.log_bytes, run.row, big))
    assert store.runs() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="can't be opened"):
        open_store(str(tmp_path / "deep" / "contest.sqlite"))


def test_a_path_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't be opened"):
        open_store(str(tmp_path / "file" / "contest.sqlite"))


def test_a_server_url_without_its_driver_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"needs psycopg.*bci-stream\[postgres\]"):
        open_store("postgresql://judge@127.0.0.1/contest")


def test_hostile_names_are_kept_as_they_are(store: Store, write_log: Callable[..., Path]) -> None:
    name = "Robert'); DROP TABLE runs;-- ?%s"
    store.rebuild([write_log("a", SimulatedRun("mi", name, trials=1))], contest=name)
    assert store.leaderboard()[0].team == name
    assert store.runs()[0].contest == name
