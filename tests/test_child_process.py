"""A child process ends after its parent was killed; one that ignores SIGTERM is killed with its group."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import psutil
import pytest
from processes import ROOT, Processes

from bci_stream.child_process import PARENT_PIPE, ChildProcess, end_with_parent

PARENT = """
import sys, time
from pathlib import Path
from bci_stream.child_process import ChildProcess
child = ChildProcess(sys.argv[1], [], Path("child.log"))
print(child.pid, flush=True)
time.sleep(600)
"""
ORDERLY = """
import signal, sys, time
from pathlib import Path
from bci_stream.child_process import end_with_parent
def stop(*_):
    Path("stopped").touch()
    sys.exit()
signal.signal(signal.SIGTERM, stop)
end_with_parent()
Path("ready").touch()
time.sleep(600)
"""
STUBBORN = """
import signal, subprocess, sys, time
from pathlib import Path
import bci_stream.child_process
bci_stream.child_process.TERM_S = 0.1
signal.signal(signal.SIGTERM, signal.SIG_IGN)
bci_stream.child_process.end_with_parent()
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path("ready.new").write_text(str(other.pid))
Path("ready.new").rename("ready")
time.sleep(600)
"""
DEADLINE_S = 60.0


@pytest.fixture
def parent(processes: Processes) -> Processes:
    """Programs for `processes`, which runs them in a folder of the test."""
    for name, text in (("parent", PARENT), ("orderly", ORDERLY), ("stubborn", STUBBORN)):
        (processes.folder / f"{name}.py").write_text(text)
    processes.env["PYTHONPATH"] = f"{ROOT}{os.pathsep}{processes.folder}"
    return processes


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    for _ in range(int(DEADLINE_S / 0.02)):
        if path.exists():
            return
        assert process.poll() is None
        signal.sigtimedwait([], 0.02)
    pytest.fail(f"{path.name} is not there after {DEADLINE_S} s")


@pytest.mark.parametrize("module", ["orderly", "stubborn"])
def test_it_ends_when_its_parent_is_killed(parent: Processes, module: str) -> None:
    started = parent.start("parent", module)
    assert started.stdout is not None
    family = [psutil.Process(int(started.stdout.readline()))]
    try:
        wait_for(parent.folder / "ready", started)
        if module == "stubborn":
            family.append(psutil.Process(int((parent.folder / "ready").read_text())))
        started.kill()
        _, left = psutil.wait_procs(family, timeout=DEADLINE_S)
        assert left == []
    finally:
        for process in psutil.wait_procs(family, timeout=0)[1]:
            process.kill()
    assert (parent.folder / "stopped").exists() == (module == "orderly")
    assert "is gone" in (parent.folder / "child.log").read_text()


@pytest.mark.parametrize("given", ["not a number", "987654", ""])
def test_without_a_pipe_there_is_nothing_to_watch(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv(PARENT_PIPE, given)
    end_with_parent()
    assert PARENT_PIPE not in os.environ
    assert "parent" not in {thread.name for thread in threading.enumerate()}


def test_a_log_that_cannot_be_written_leaves_no_pipe_open(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(FileNotFoundError):
        ChildProcess("replay", [], tmp_path / "nowhere" / "child.log")
    assert psutil.Process().num_fds() == before


def test_the_last_line_of_its_log_tells_why_it_ended(tmp_path: Path) -> None:
    child = ChildProcess("replay", ["start"], tmp_path / "child.log")
    assert psutil.Process(child.pid).ppid() == os.getpid()
    child._process.wait(DEADLINE_S)
    assert child.exit_code() == 2
    assert "SOURCES" in child.last_line()
    child.end()
