"""Wrong usage of the three commands: one clear line, an exit code other than 0, and never a traceback."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import decoders.cli
import replay.cli
from bci_stream.contest.contest import Contest
from bci_stream.judge import run_command
from bci_stream.judge.cli import main as judge_main
from bci_stream.judge.contest_run import Outcome

ROOT = Path(__file__).parents[1]
MAINS = {"bci-replay": replay.cli.main, "bci-decode": decoders.cli.main, "bci-judge": judge_main}
MODULES = {"bci-replay": "replay", "bci-decode": "decoders", "bci-judge": "bci_stream.judge"}


def invoke(program: str, *words: str) -> Result:
    ended = CliRunner().invoke(MAINS[program], words)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended


@pytest.mark.parametrize("program", MAINS)
def test_version_is_that_of_the_installed_package(program: str) -> None:
    ended = CliRunner().invoke(MAINS[program], ["--version"], prog_name=program)
    assert ended.output == f"{program} {version('bci-stream')}\n"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("live", "--port", "99999"), "99999 is not in the range 0<=x<=65535"),
        (
            ("run", "--track", "mi", "--decoder", "mi-chance", "--jobs", "0"),
            "0 is not in the range",
        ),
        (("run", "--track", "mi", "--decoder", "mi-chance", "-j", "-3"), "-3 is not in the range"),
    ],
)
def test_a_number_out_of_range_is_a_usage_error(words: tuple[str, ...], named: str) -> None:
    ended = invoke("bci-judge", *words)
    assert ended.exit_code == 2
    assert named in ended.output


# --- Ctrl-C in the first half second ---------------------------------------------------------------

INTERRUPT = """
import os, runpy, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts())
sys.argv = {argv!r}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("at", ["click", "numpy"])
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("bci-replay", ["status"]),
        ("bci-decode", ["list"]),
        ("bci-judge", ["live", "--no-web", "--wait", "1"]),
    ],
)
def test_ctrl_c_while_modules_are_imported_prints_no_traceback(
    program: str, words: list[str], at: str
) -> None:
    code = INTERRUPT.format(at=at, argv=[program, *words], module=MODULES[program])
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert "KeyboardInterrupt" not in done.stderr
    if at == "click":
        assert done.returncode == -signal.SIGINT


# --- bci-judge run ---------------------------------------------------------------------------------


def test_an_unknown_decoder_is_refused_before_anything_starts(monkeypatch) -> None:
    monkeypatch.setattr(run_command, "play", lambda *_, **__: pytest.fail("a run was started"))
    ended = invoke("bci-judge", "run", "--track", "mi", "--decoder", "nope")
    assert ended.exit_code == 1
    assert "unknown decoder 'nope'" in ended.output
    assert "mi-riemann" in ended.output


def test_a_decoder_of_another_track_is_refused_before_anything_starts(monkeypatch) -> None:
    monkeypatch.setattr(run_command, "play", lambda *_, **__: pytest.fail("a run was started"))
    ended = invoke("bci-judge", "run", "--track", "mi", "--decoder", "erp-chance=model.npz")
    assert ended.exit_code == 1
    assert "erp-chance is for track erp, not mi" in ended.output


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the entries' runs end; none is run."""
    reasons: list[str] = []

    def run_entries(wire, contest: Contest, entries, sink, **_) -> list[Outcome]:
        return [
            Outcome(entry, reason, "why" if reason != "finished" else "")
            for entry, reason in zip(entries, reasons, strict=True)
        ]

    monkeypatch.setattr(run_command, "run_entries", run_entries)
    monkeypatch.setattr(run_command, "open_wire", lambda *_, **__: None)
    return reasons


RUN = ("run", "--track", "mi", "--decoder", "a:A", "--decoder", "b:B")


def test_a_contest_in_which_no_entry_finished_fails(endings: list[str]) -> None:
    endings += ["crashed", "timeout"]
    ended = invoke("bci-judge", *RUN)
    assert ended.exit_code == 1
    assert "no run finished; a-A on mi: crashed (why)" in ended.output


def test_a_crash_of_one_entry_is_a_result_like_another(endings: list[str]) -> None:
    endings += ["crashed", "finished"]
    assert invoke("bci-judge", *RUN).exit_code == 0


def test_with_json_nothing_else_is_on_standard_output(endings: list[str]) -> None:
    endings += ["finished", "finished"]
    ended = invoke("bci-judge", *RUN, "--json")
    outcomes = json.loads(ended.stdout)
    assert [outcome["team"] for outcome in outcomes] == ["a-A", "b-B"]
    assert "run logs" in ended.stderr


# --- bci-replay start ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("nosuch.edf",), "there is no file or folder nosuch.edf"),
        (("file:nosuch.edf",), "there is no file or folder nosuch.edf"),
        (("ftp:x",), "schemes"),
        (("synthetic:mi", "--pace", "sideways"), "sideways"),
        (("synthetic:mi", "--contest", "nowhere.toml"), "nowhere.toml"),
        (("synthetic:mi", "--events", "T1"), "T1"),
    ],
)
def test_what_can_not_be_played_is_refused_before_the_daemon_starts(
    monkeypatch, words: tuple[str, ...], named: str
) -> None:
    monkeypatch.setattr("replay.daemon.spawn", lambda _: pytest.fail("the daemon was started"))
    ended = invoke("bci-replay", "start", *words)
    assert ended.exit_code == 1
    assert named in ended.output


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mounting, check=False).returncode != 0:
        pytest.skip("a small disk can't be mounted here")
    try:
        (disk / "home" / "replays").mkdir(parents=True)
        with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
        monkeypatch.setenv("BCI_HOME", str(disk / "home"))
        ended = invoke("bci-replay", "start", "synthetic:mi")
        assert list((disk / "home" / "replays").glob("*.room*")) == []
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    assert ended.exit_code == 1
    assert f"{disk}/home/replays/" in ended.output
    assert "No space left on device; make room there" in ended.output


def test_a_recording_in_a_folder_that_is_not_there_is_refused_for_that(tmp_path: Path) -> None:
    ended = invoke("bci-replay", "record", str(tmp_path / "none" / "x.xdf"))
    assert ended.exit_code == 1
    assert f"there is no folder {tmp_path}/none" in ended.output
    assert not (tmp_path / "none").exists()


# --- names in the current folder -------------------------------------------------------------------


@pytest.fixture
def folder_with_our_names(tmp_path: Path) -> Path:
    """A working directory with modules that have the names of our packages."""
    for name in ("replay", "tracks"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('MY {name} was imported')\n")
    for name in ("decoders", "bci_stream"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            f"raise SystemExit('MY {name} was imported')\n"
        )
    (tmp_path / "mine.py").write_text(
        "import replay.sources\n\n\nclass Mine:\n"
        "    def start(self, info):\n        pass\n\n"
        "    def step(self, packet):\n        return []\n"
    )
    return tmp_path


def test_modules_of_the_current_folder_are_not_taken_for_ours(folder_with_our_names: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program: str, *words: str) -> str:
        module = MODULES[program]
        code = f"import sys; sys.argv[0] = {program!r}; from {module}.__main__ import run; run()"
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, *words],
            env=env,
            cwd=folder_with_our_names,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert "was imported" not in done.stdout + done.stderr
        assert done.returncode == 0, done.stderr
        return done.stdout

    # The daemon, and the decoder that a judge starts, are processes of their own.
    assert "replay 'mine' is" in run("bci-replay", "start", "synthetic:mi", "--name", "mine")
    run("bci-replay", "stop", "mine")
    run("bci-decode", "prepare", "--track", "erp", "--decoder", "mine:Mine")
