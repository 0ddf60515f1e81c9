"""Run logs are read in processes of their own, which end with the server and are replaced when killed."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from season.serving import make_contest, serving, wait_for
from season.test_serve import submit

from bci_stream.errors import LogError
from bci_stream.season import log_pool, workers
from bci_stream.season.client import SeasonError
from bci_stream.season.log_pool import TRIES, LogPool

pytestmark = pytest.mark.slow


def refuse() -> None:
    raise LogError("line 3 was changed")


def write_pid(path: Path) -> None:
    path.write_text(str(os.getpid()))


def hang(path: Path) -> None:
    write_pid(path)
    threading.Event().wait(600.0)


def die_until(marks: Path, times: int) -> int:
    """Kill this process the first `times` times; then the number of processes that were asked."""
    marks.mkdir(exist_ok=True)
    write_pid(marks / str(os.getpid()))
    asked = len(list(marks.iterdir()))
    if asked <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return asked


def go_on() -> bool:
    return True


def is_gone(pid: Path) -> bool:
    try:
        return psutil.Process(int(pid.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_process_is_replaced_and_the_log_is_read_again(tmp_path: Path) -> None:
    logs = LogPool(1)
    try:
        assert logs.call(go_on, die_until, tmp_path / "once", 1) == 2
        with pytest.raises(LogError, match="line 3 was changed"):
            logs.call(go_on, refuse)
        with pytest.raises(LogError, match=f"killed {TRIES} times"):
            logs.call(go_on, die_until, tmp_path / "always", TRIES)
    finally:
        logs.close()


def test_a_server_that_stops_does_not_wait_for_a_long_log(tmp_path: Path) -> None:
    logs = LogPool(1)
    path = tmp_path / "pid"
    assert logs.call(lambda: not path.exists(), hang, path) is None
    logs.close()
    assert is_gone(path)


def test_a_log_whose_reading_hangs_is_given_up_and_its_process_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pool, "READ_S", 0.0)
    logs = LogPool(1)
    path = tmp_path / "pid"
    with pytest.raises(LogError, match="not read within 0 s"):
        logs.call(go_on, hang, path)
    logs.close()
    assert not path.exists() or is_gone(path)


def test_no_key_is_sent_to_a_process(tmp_path: Path) -> None:
    contest = make_contest(tmp_path / "cup")
    contest.keys.signing_key()  # a key that is in use
    key, sent = contest.keys.contest_key(), pickle.dumps(contest)
    assert key not in sent
    assert pickle.loads(sent).keys.contest_key() == key  # noqa: S301 - made above


def test_the_processes_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    program = (
        "from pathlib import Path\n"
        "from bci_stream.season.log_pool import LogPool\n"
        "from season.test_log_pool import go_on, hang\n"
        f"LogPool(1).call(go_on, hang, Path({str(path)!r}))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen([sys.executable, "-c", program], env=env)
    try:
        wait_for(lambda: path.exists() and path.read_text())
        assert not is_gone(path)
    finally:
        server.kill()
        server.wait()
    wait_for(lambda: is_gone(path))


class KilledLogs(LogPool):
    """Its processes are killed each time the first log is read."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked = 0

    def call(self, go_on: Any, function: Any, *values: Any, **named: Any) -> Any:
        self.asked += function is workers.result_of and not values[2].is_check
        if self.asked == 1:
            return super().call(go_on, os.abort)
        return super().call(go_on, function, *values, **named)


def test_a_log_that_cannot_be_read_is_our_fault_and_costs_no_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bci_stream.season.storage.store.retry_delay_s", lambda failures: 0.0)
    contest = make_contest(tmp_path / "cup", '[[phases]]\nname = "open"\nquota = 2\n')
    logs = KilledLogs()
    with closing(logs), serving(contest, logs=logs) as served:
        alice = served.client("alice")
        number = submit(alice, tmp_path)
        served.until(alice, number, "judged")
        with served.store() as store:
            failed, counted = store.attempts(number)[1:]
        assert "killed 3 times" in failed.detail
        assert counted.outcome == "finished"
        served.until(alice, submit(alice, tmp_path), "judged")
        with pytest.raises(SeasonError, match="used up"):
            submit(alice, tmp_path)


class ObservedLogs(LogPool):
    """Notes until when the lease of the run was held before and after it was asked to go on."""

    def __init__(self) -> None:
        super().__init__(1)
        self.lease_until = lambda: 0.0
        self.noted: list[float] = []

    def call(self, go_on: Any, function: Any, *values: Any, **named: Any) -> Any:
        self.noted.append(self.lease_until())
        assert go_on()
        self.noted.append(self.lease_until())
        return super().call(go_on, function, *values, **named)


def test_the_lease_is_renewed_while_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose reading takes longer than the lease would be run again for ever."""
    monkeypatch.setattr(workers, "RENEW_S", 0.0)
    logs = ObservedLogs()
    with serving(make_contest(tmp_path / "cup"), logs=logs) as served:

        def lease_until() -> float:
            with served.store() as store:
                return store.units(1)[-1].lease_until

        logs.lease_until = lease_until
        alice = served.client("alice")
        served.until(alice, submit(alice, tmp_path), "judged")
    logs.close()
    before, after = logs.noted[-2:]
    assert after > before
