"""The commands list the files that they made, and show our errors as one line."""

import threading

import click
import pytest
from click.testing import CliRunner

from bci_stream.cli import Commands
from replay.tools.commands import prepare_command, record_command


@click.group(cls=Commands)
def program():
    pass


program.add_command(prepare_command)
program.add_command(record_command)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    # The test process keeps its own Ctrl-C.
    monkeypatch.setattr("replay.tools.commands.stop_on_signals", threading.Event)
    return lambda *words: CliRunner().invoke(program, list(words))


def test_prepare_lists_every_file_that_it_made(run, tmp_path):
    ended = run("prepare", "synthetic:erp?subjects=1&trials=1", "--track", "erp", "--out", "set")
    assert ended.exit_code == 0, ended.output
    made = sorted(path for path in (tmp_path / "set").rglob("*") if path.is_file())
    assert len(made) == 5
    for path in made:
        assert str(path.relative_to(tmp_path)) in ended.output


def test_prepare_takes_one_split(run):
    ended = run(
        "prepare", "x.edf", "--track", "mi", "--out", "set",
        "--train-blocks", "1", "--train-persons", "1",
    )  # fmt: skip
    assert ended.exit_code == 2
    assert "one of the two" in ended.output


def test_a_recording_that_is_not_there_is_one_line_and_exit_1(run):
    ended = run("prepare", "nowhere.edf", "--track", "mi", "--out", "set")
    assert ended.exit_code == 1
    assert ended.output.startswith("Error: there is no file or folder nowhere.edf")


def test_record_refuses_a_name_that_is_no_xdf(run):
    ended = run("record", "x.edf")
    assert ended.exit_code == 1
    assert "*.xdf" in ended.output


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf"])
def test_record_refuses_a_time_that_is_none(run, seconds, tmp_path):
    ended = run("record", "x.xdf", "--seconds", seconds)
    assert ended.exit_code == 2
    assert "--seconds" in ended.output
    assert not (tmp_path / "x.xdf.part").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("record", "file/x.xdf", "--seconds", "1"),
        ("prepare", "synthetic:erp?subjects=1&trials=1", "--track", "erp", "--out", "file/set"),
    ],
)
def test_a_place_that_can_not_be_written_is_one_line_and_exit_1(run, words, tmp_path):
    (tmp_path / "file").write_text("no folder")
    ended = run(*words)
    assert ended.exit_code == 1
    assert ended.output.splitlines()[-1].startswith("Error: file/")
    assert "a part of this path is a file, not a folder" in ended.output


def test_prepare_takes_a_used_folder_with_overwrite(run):
    words = ("prepare", "synthetic:erp?subjects=1&trials=1", "--track", "erp", "--out", "set")
    assert run(*words).exit_code == 0
    again = run(*words)
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    assert run(*words, "--overwrite").exit_code == 0
