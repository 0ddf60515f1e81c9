"""Without what only POSIX systems have: files are played, decoders take part, other commands say so.

A sitecustomize module takes modules, signals and functions away before anything of ours is imported. It does
not change sys.platform: other packages choose by it, and here they are those of this system.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import ROOT, Processes

pytestmark = [pytest.mark.lsl, pytest.mark.timeout(180)]

SHIM = """
import builtins
import os
import signal
import socket

import platformdirs.unix  # of this system: these take os.getuid and AF_UNIX when they are imported
import psutil

OURS = ("tracks", "bci_stream", "replay", "decoders")
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "_posixsubprocess")
SIGNALS = ("ALRM", "CHLD", "CONT", "HUP", "KILL", "PIPE", "QUIT", "STOP", "TSTP", "USR1", "USR2")
FUNCTIONS = ("fork", "forkpty", "getpgrp", "getuid", "geteuid", "killpg", "setsid")

original = builtins.__import__


def imported(name, scope=None, *others, **more):
    importer = (scope or {}).get("__name__", "").partition(".")[0]
    if name.partition(".")[0] in MODULES and importer in OURS:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return original(name, scope, *others, **more)


builtins.__import__ = imported
for name in SIGNALS:
    delattr(signal, f"SIG{name}")
for name in ("pthread_sigmask", "sigtimedwait", "alarm"):
    delattr(signal, name)
for name in FUNCTIONS:
    delattr(os, name)
del socket.AF_UNIX

"""

SOURCE = "synthetic:erp?subjects=1&trials=2"
COMMANDS = {
    "bci-replay start in the background": ("replay", "start", SOURCE),
    "bci-replay stop": ("replay", "stop"),
    "bci-replay pause": ("replay", "pause", "x"),
    "bci-replay resume": ("replay", "resume", "x"),
    "bci-replay record": ("replay", "record", "x.xdf"),
    "bci-replay mark without --trigger-box": ("replay", "mark", "7"),
    "bci-judge live with its page": ("bci_stream.judge", "live"),
    "bci-judge run": ("bci_stream.judge", "run", "--track", "mi", "--decoder", "mi-chance"),
    "bci-decode --submission": ("decoders", "--track", "mi", "--submission", "x"),
    "bci-decode check --submission": ("decoders", "check", "--track", "mi", "--submission", "x"),
    "bci-decode prepare --submission": (
        "decoders",
        "prepare",
        "--track",
        "mi",
        "--submission",
        "x",
    ),
    "bci-decode cache": ("decoders", "cache"),
}
IN_ONE_PROCESS = """
import importlib, json, sys
from click.testing import CliRunner

ended = {}
for name, (module, *words) in json.loads(sys.argv[1]).items():
    result = CliRunner().invoke(importlib.import_module(module + ".cli").main, words)
    ended[name] = (result.exit_code, result.output)
print(json.dumps(ended))
"""


@pytest.fixture
def elsewhere(processes: Processes) -> Processes:
    """Processes whose Python has nothing that only POSIX systems have."""
    shim = processes.folder / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(SHIM)
    processes.env["PYTHONPATH"] = os.pathsep.join((str(shim), str(ROOT)))
    return processes


def test_a_replay_a_decoder_and_a_judge_without_a_page_need_nothing_of_posix(
    elsewhere: Processes,
) -> None:
    common = ("--wait", "60")
    started = [
        elsewhere.start("bci_stream.judge", "live", "--no-web", *common),
        elsewhere.start(
            *("replay", "start", SOURCE, "--track", "erp", "--foreground"),
            *("--pace", "lockstep", *common),
        ),
        elsewhere.start("decoders", "--track", "erp", "--decoder", "erp-chance", *common),
    ]
    for process in started:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        assert "Traceback" not in out
    assert "joined run" in out
    (log,) = (Path(elsewhere.env["BCI_HOME"]) / "contests" / "default" / "runs").glob("*.jsonl")
    result = json.loads(elsewhere.run("bci_stream.judge", "score", str(log), "--json"))
    assert (result["end"], result["sessions"][0]["trials"]) == ("finished", 2)


def test_commands_that_need_posix_say_so_by_name(elsewhere: Processes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(COMMANDS)],
        env=elsewhere.env,
        cwd=elsewhere.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for name, (code, output) in json.loads(done.stdout).items():
        assert code == 1, (name, output)
        assert output.startswith(f"Error: {name} needs Linux or macOS"), output
