"""Commands as processes of their own, ended when the test ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
WAIT_S = 120.0


class Processes:
    """Starts `python -m ...` in a folder, with $BCI_HOME and an LSL session of that folder.

    Each child leads a process group of its own; `end` kills the groups that are left.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "BCI_HOME": str(folder / "home"),
            "BCI_LSL_SESSION": f"p-{os.getpid()}-{folder.name}",
            "PYTHONPATH": str(ROOT),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *command: str, **options: Any) -> "subprocess.Popen[str]":
        """Start `python -m *command`; stderr goes to stdout unless `options` say otherwise."""
        return self.start_program([sys.executable, "-m", *command], **options)

    def start_program(self, command: list[str], **options: Any) -> "subprocess.Popen[str]":
        given = {
            "env": self.env,
            "cwd": self.folder,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            **options,
        }
        process = subprocess.Popen(command, text=True, start_new_session=True, **given)
        self._started.append(process)
        return process

    def run(self, *command: str, code: int = 0) -> str:
        """The output of `python -m *command`, which must exit with `code` and without a traceback."""
        process = self.start(*command)
        out, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == code, out
        assert "Traceback" not in out
        return out

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def end_daemons(home: Path) -> None:
    """Kill the processes that a state file in `home` names and that run with this $BCI_HOME."""
    folder = home / "replays"
    for path in folder.glob("*.json") if folder.is_dir() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError, psutil.Error):
            process = psutil.Process(json.loads(path.read_text())["pid"])
            if process.pid != os.getpid() and process.environ().get("BCI_HOME") == str(home):
                process.kill()
