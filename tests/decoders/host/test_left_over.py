"""A host that is stopped or killed leaves no folder, process or environment behind."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from decoders.host.prepare import PREFIX, make_folder, sweep_folders
from decoders.host.venv import remove_leased, try_lease
from tests.decoders.host.conftest import Write
from tests.decoders.host.test_hostile import REPOSITORY, hostile

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hostable")]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_the_folder_of_a_living_host_is_left_alone_and_removed_when_it_closes(
    temporary: Path,
) -> None:
    folder, lock = make_folder()
    sweep_folders()
    assert folder.is_dir()
    remove_leased(folder, lock)
    assert list(temporary.iterdir()) == []


def test_a_folder_whose_host_is_gone_is_swept(temporary: Path) -> None:
    code = "from decoders.host.prepare import make_folder; print(make_folder()[0])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert Path(done.stdout.strip()).is_dir()
    sweep_folders()
    assert list(temporary.iterdir()) == []


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_on_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "x.lock"
    flock = fcntl.flock

    def removed_before(number: int, kind: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        lock.unlink()
        flock(number, kind)

    monkeypatch.setattr(fcntl, "flock", removed_before)
    lease = try_lease(lock)
    assert lease is not None
    assert os.fstat(lease.number).st_ino == lock.stat().st_ino
    lease.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_check_leaves_nothing_behind_when_it_is_ended(
    number: signal.Signals, write: Write, temporary: Path
) -> None:
    package = write(hostile("print('running', flush=True)\ntime.sleep(1000)"))
    command = [sys.executable, "-m", "decoders", "check", "--track", "mi"]
    with subprocess.Popen(
        [*command, "--submission", str(package)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=REPOSITORY,
    ) as check:
        children = _running(check.pid)
        check.send_signal(number)
        check.wait(60)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
    if number == signal.SIGKILL:
        assert list(temporary.glob(f"{PREFIX}*"))
        sweep_folders()  # as the next start does
    assert list(temporary.glob(f"{PREFIX}*")) == []


def test_the_process_that_reads_a_package_ends_with_a_host_that_is_killed(tmp_path: Path) -> None:
    package = tmp_path / "team.zip"
    os.mkfifo(package)  # its reader waits
    code = (
        "import sys; from pathlib import Path; from decoders.host.prepare import read_package; "
        "read_package(Path(sys.argv[1]), Path(sys.argv[2]), 'mi')"
    )
    command = [sys.executable, "-c", code, str(package), str(tmp_path / "into")]
    with subprocess.Popen(command, cwd=REPOSITORY) as host, package.open("wb"):
        # The package is open here as soon as its reader has opened it.
        children = psutil.Process(host.pid).children(recursive=True)
        host.send_signal(signal.SIGKILL)
        host.wait(60)
        _, alive = psutil.wait_procs(children, timeout=60)
    assert children
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []


def _running(pid: int) -> list[psutil.Process]:
    """All processes of the check, as soon as the submission itself runs: its shim is among them."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        children = psutil.Process(pid).children(recursive=True)
        for child in children:
            try:
                if any(word.endswith("shim.py") for word in child.cmdline()[:4]):
                    return children
            except psutil.Error:
                continue
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the submission did not start")
