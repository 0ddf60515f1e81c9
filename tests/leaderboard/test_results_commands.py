"""`bci-judge leaderboard` prints a store."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bci_stream.errors import LogError, StoreError
from bci_stream.judge.results_commands import print_leaderboard
from scripts.simulated_runs import SimulatedRun


@pytest.fixture
def folder(write_log: Callable[..., Path]) -> Path:
    write_log("a", SimulatedRun("mi", "alpha", 0.9, trials=3))
    return write_log("b", SimulatedRun("mi", "beta", 0.4, trials=3)).parent


def test_it_prints_a_table_json_or_csv_of_the_same_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = str(folder / "store.sqlite")
    print_leaderboard(where, logs=folder, form="json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["team"] for row in rows] == ["alpha", "beta"]
    print_leaderboard(where, form="csv")
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["score"]) for row in read] == [row["score"] for row in rows]
    print_leaderboard(where, form="table")
    assert "alpha" in capsys.readouterr().out


def test_a_log_that_cannot_be_read_is_named_and_the_rest_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "c.jsonl").write_text("{")
    print_leaderboard(str(folder / "store.sqlite"), logs=folder, form="json")
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2
    assert "left out" in caplog.text
    assert "c.jsonl" in caplog.text


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="holds no run log"):
        print_leaderboard(str(tmp_path / "store.sqlite"), logs=tmp_path)
    with pytest.raises(LogError, match="no run has been logged yet"):
        print_leaderboard(str(tmp_path / "store.sqlite"), logs=tmp_path / "nowhere")


def test_a_store_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no store .*none\.sqlite.*--logs"):
        print_leaderboard(str(tmp_path / "x" / "none.sqlite"))
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_another_contest_says_which_it_holds(folder: Path) -> None:
    where = str(folder / "store.sqlite")
    print_leaderboard(where, logs=folder, contest="finals")
    with pytest.raises(StoreError, match=r"no run of contest 'mine'; it holds 'finals'.*--contest"):
        print_leaderboard(where, contest="mine")
