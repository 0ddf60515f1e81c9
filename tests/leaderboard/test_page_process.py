"""The page's process: it never delays the judge, is started again when it dies, and ends with the judge."""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from leaderboard.waiting import wait_for
from playground import logged_lines
from processes import ROOT, Processes

from bci_stream.clock import ManualClock
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web import process as page_process
from bci_stream.leaderboard.web.process import WebBoard
from bci_stream.leaderboard.web.supervisor import RestartPause
from scripts.simulated_runs import SimulatedRun
from tracks.run import Run

TEAMS = [f"team {n}" for n in range(100)]
READ_S = 60


@pytest.fixture
def board(feed_board: Callable[..., Run]) -> Leaderboard:
    board = Leaderboard("Finals")
    feed_board(board, "alpha", "mi", SimulatedRun("mi", "alpha", trials=3).events())
    return board


@pytest.fixture
def page(board: Leaderboard) -> Iterator[WebBoard]:
    served = WebBoard(board, port=0, period_s=0.02)
    served.start()
    yield served
    if served.pid is not None and psutil.pid_exists(served.pid):
        os.kill(served.pid, signal.SIGCONT)
    served.stop()


def get(url: str, path: str) -> Any:
    with urlopen(url + path, timeout=READ_S) as answer:
        return json.load(answer)


def statuses(page: WebBoard) -> dict[str, str]:
    rows = get(page.url, "api/v1/leaderboard")["rows"]
    return {row["team"]: row["status"] for row in rows}


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet collected does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_judges_process_imports_no_web_server() -> None:
    code = "import sys, bci_stream.judge.live_command; print('aiohttp' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "False\n"


def test_a_page_that_was_killed_is_started_again_on_its_port_with_everything(
    page: WebBoard, board: Leaderboard
) -> None:
    before = get(page.url, "api/v1/teams/mi/alpha")
    assert len(before["trials"]) == 3
    first = page.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: page.pid not in (first, None), "another page")
    assert get(page.url, "api/v1/teams/mi/alpha") == before
    board.team("late", "mi", "running")
    wait_for(lambda: statuses(page).get("late") == "running", "the next update")
    (alarm,) = get(page.url, "api/v1/contest")["alarms"]
    assert alarm["reasons"] == [{"code": "page_ended", "parameters": {"exit_code": -9}}]


def test_a_stopped_page_neither_delays_the_judge_nor_takes_its_memory(
    page: WebBoard, board: Leaderboard
) -> None:
    for team in TEAMS:
        board.team(team, "mi", "running")
    wait_for(lambda: len(statuses(page)) == 101, "all teams")
    stopped = page.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    judge, taken_s = psutil.Process(), []
    grown: list[int] = []
    for number in range(300):
        for team in TEAMS:
            begun = time.perf_counter()
            board.team(team, "mi", "lagging", reason=f"{number}".rjust(190, "x"), lag_s=number)
            taken_s.append(time.perf_counter() - begun)
        board.tick()
        if number >= 100:  # as many updates as a feed and a socket hold are made by then
            grown.append(judge.memory_info().rss)
    assert statistics.median(taken_s) < 0.0005
    assert statistics.quantiles(taken_s, n=100)[98] < 0.005
    assert grown[-1] - grown[0] < 60 << 20  # the last updates, and nothing for the page
    board.team("late", "mi", "running")
    os.kill(stopped, signal.SIGCONT)
    wait_for(lambda: statuses(page).get("late") == "running", "the page to catch up")
    assert set(statuses(page).values()) == {"finished", "lagging", "running"}


def test_a_page_that_reads_nothing_for_too_long_is_replaced(
    page: WebBoard, board: Leaderboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert statuses(page) == {"alpha": "finished"}
    stopped = page.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(page_process, "STALLED_S", 0.1)

    def is_replaced() -> bool:
        for team in TEAMS:
            board.team(team, "mi", "running", reason=f"{time.monotonic()}".rjust(190, "x"))
        return page.pid not in (stopped, None)

    wait_for(is_replaced, "another page")
    assert len(statuses(page)) == 101
    assert not is_running(stopped)


def test_a_page_whose_supervisor_was_killed_is_started_again_too(page: WebBoard) -> None:
    assert statuses(page) == {"alpha": "finished"}
    first = page.pid
    assert first is not None
    supervisor = psutil.Process(first).parent()
    assert supervisor is not None
    supervisor.kill()
    wait_for(lambda: page.pid not in (first, None), "another page")
    assert statuses(page) == {"alpha": "finished"}
    wait_for(lambda: not is_running(first), "the first page to end")


def test_a_page_that_can_not_run_is_tried_again_after_pauses_that_grow(
    board: Leaderboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_process.sys, "executable", "/bin/false")
    served = WebBoard(board, port=0, period_s=0.01)
    served._restart = RestartPause(0.01, lambda: 0.0)  # it never lives long
    with logged_lines("bci_stream") as lines:
        served.start()
        wait_for(lambda: len(lines) >= 4, "several tries")
        served.stop()
    pauses = [message.rpartition(" in ")[2] for message in lines[:4]]
    assert pauses == ["0.01 s", "0.02 s", "0.04 s", "0.08 s"]


def test_pauses_are_bounded_and_short_again_after_a_long_life() -> None:
    clock = ManualClock()
    pause = RestartPause(1.0, clock.now)
    assert [pause.next_s() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    pause.started()
    clock.advance(100)
    assert [pause.next_s(), pause.next_s()] == [1, 1]
    pause.started()
    assert pause.next_s() == 2


JUDGE = """
import sys, time
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.process import WebBoard

board = Leaderboard("Finals")
board.team("alpha", "mi", "running")
page = WebBoard(board, port=0)
page.start()
while page.pid is None:
    time.sleep(0.01)
print(page.pid, page.url, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running page", "stopped page"])
def test_a_judge_that_was_killed_leaves_no_page(processes: Processes, is_stopped: bool) -> None:
    judge = processes.start_program([sys.executable, "-c", JUDGE])
    assert judge.stdout is not None
    pid, url = judge.stdout.readline().split()
    assert len(get(url, "api/v1/leaderboard")["rows"]) == 1
    if is_stopped and sys.platform != "linux":
        pytest.skip("only Linux ends a stopped process with its parent")
    os.kill(int(pid), signal.SIGSTOP if is_stopped else signal.SIGCONT)
    judge.kill()
    judge.wait()
    wait_for(lambda: not is_running(int(pid)), "the page to end", 20)
    port = int(url.rstrip("/").rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free


def start_live(processes: Processes, *options: str) -> tuple["subprocess.Popen[str]", str]:
    """`bci-judge live`, and the address of its page."""
    judge = processes.start("bci_stream.judge", "live", "--stay", "--port", "0", *options)
    assert judge.stdout is not None
    line = judge.stdout.readline()
    assert line.startswith("leaderboard: http://"), line
    return judge, line.split()[1]


@pytest.mark.lsl
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_judge_and_its_page(processes: Processes, number: signal.Signals) -> None:
    judge, url = start_live(processes)
    assert get(url, "api/v1/leaderboard") == {"rows": []}
    started = psutil.Process(judge.pid).children(recursive=True)
    assert len(started) == 2  # the page, and what starts it
    os.killpg(judge.pid, number)  # as a terminal does
    out, _ = judge.communicate(timeout=60)
    assert judge.returncode == 0, out
    assert "Traceback" not in out
    assert not [process for process in started if process.is_running()]


def test_a_port_in_use_is_an_error_before_anything_starts(
    processes: Processes, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        out = processes.run("bci_stream.judge", "live", "--port", str(port), code=1)
    assert f"127.0.0.1:{port}: the port is in use" in out
    assert "--port" in out
    assert "waiting" not in out


@pytest.mark.parametrize("port", ["99999", "-1", "http"])
def test_a_port_that_is_none_is_a_usage_error(processes: Processes, port: str) -> None:
    assert "--port" in processes.run("bci_stream.judge", "live", "--port", port, code=2)
