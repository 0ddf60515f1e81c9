"""What the three command lines share."""

import errno
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bci_stream.cli import Commands, SecondsType, configure_logging, stop_signals

ROOT = Path(__file__).parents[1]
WAITING = """
import sys
from bci_stream.cli import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
while not stop.wait(0.0001):  # nearly always inside the event's own lock
    pass
print("stopped")
"""


def test_the_names_of_tracks_need_no_numpy() -> None:
    program = """
import sys
from bci_stream.cli import TrackName
assert set(TrackName().choices) >= {"mi", "turing", "emotion", "ecog", "erp"}
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("attempt", range(5))
def test_a_signal_never_waits_for_the_lock_of_the_event_that_it_sets(number, attempt) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "stopped\n")


def test_under_nohup_a_closed_terminal_stops_nothing() -> None:
    assert signal.SIGHUP in stop_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert stop_signals() == [signal.SIGINT, signal.SIGTERM]


def test_a_closed_terminal_does_not_stop_a_process_that_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(click, "echo", broken)
    configure_logging()
    logging.getLogger("replay").warning("stalled")


@pytest.mark.parametrize("module", ["replay.cli", "decoders.cli", "bci_stream.judge.cli"])
def test_help_needs_no_heavy_import(module: str) -> None:
    heavy = (
        "numpy",
        "scipy",
        "mne",
        "sklearn",
        "pyriemann",
        "matplotlib",
        "aiohttp",
        "brainflow",
        "pylsl",
    )
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


@click.group(cls=Commands)
def program() -> None:
    pass


@program.command()
@click.option("--number", type=int, default=None)
@click.option("--file", default=None)
@click.option("--wait", type=SecondsType(min=0), default=1.0)
def fail(number: int | None, file: str | None, wait: float) -> None:
    if number is not None:
        raise OSError(number, os.strerror(number), *([file] if file else []))
    raise OSError("a library's own words")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--number", str(errno.ENOENT), "--file", "/proc/x"],
            "/proc/x: No such file or directory; check its spelling, and that its folder is there",
        ),
        (
            ["--number", str(errno.ENOSPC)],
            "program fail: No space left on device; make room there, or choose another place",
        ),
        (
            ["--number", str(errno.EIO), "--file", "a.npz"],
            "a.npz: Input/output error; check that you may use it",
        ),
        ([], "program fail: a library's own words"),
    ],
)
def test_an_os_error_is_one_line_and_exit_1(arguments: list[str], message: str) -> None:
    ended = CliRunner().invoke(program, ["fail", *arguments])
    assert (ended.exit_code, ended.output) == (1, f"Error: {message}\n")


def test_a_closed_pipe_is_not_an_error() -> None:
    ended = CliRunner().invoke(program, ["fail", "--number", str(errno.EPIPE)])
    assert (ended.exit_code, ended.output) == (1, "")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "soon"])
def test_a_time_that_never_passes_is_a_usage_error(text: str) -> None:
    ended = CliRunner().invoke(program, ["fail", "--wait", text])
    assert ended.exit_code == 2
    assert "Invalid value for '--wait'" in ended.output


@pytest.mark.parametrize("words", [["status"], ["start", "synthetic:erp"]])
def test_a_state_folder_that_can_not_be_made_is_an_error(
    words: list[str], monkeypatch, tmp_path
) -> None:
    from replay.cli import main

    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("BCI_HOME", str(tmp_path / "file" / "home"))
    ended = CliRunner().invoke(main, words)
    assert ended.exit_code == 1
    assert ended.output.startswith(f"Error: {tmp_path}/file/home: Not a directory; ")
