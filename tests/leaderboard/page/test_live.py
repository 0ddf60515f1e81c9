"""The page is updated live, and survives a restart and a kill of the judge."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from leaderboard.page.tab import Tab, serving, teams, wait_for_team
from processes import Processes

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.server import WebBoard
from scripts.simulated_runs import SimulatedRun
from tracks.registry import TRACKS
from tracks.run import Run


def test_it_loads_without_an_error_and_asks_no_other_host_than_the_judge(
    served: WebBoard, tab: Tab
) -> None:
    page = tab.open(served.url)
    assert teams(page) == ["alpha", "beta"]
    assert page.title() == "Finals · Leaderboard"
    assert page.locator(".board .line").count() == 1
    assert page.locator(".curves path.curve").count() == 2
    assert page.locator(".verdicts li").count() == 6
    assert tab.problems == []
    assert {url[: len(served.url)] for url in tab.requests} == {served.url}


def test_it_updates_live(served: WebBoard, board: Leaderboard, tab: Tab) -> None:
    page = tab.open(served.url)
    run = Run()
    for event in SimulatedRun("mi", "gamma", 1.0, trials=2, seed=3).events():
        board.event("gamma", "mi", event, run.feed(event), run)
    wait_for_team(page, "gamma")
    page.wait_for_function("document.querySelector('.board .name').textContent === 'gamma'")
    assert page.locator("#announce").inner_text().startswith("gamma leads with")
    assert tab.problems == []


def test_the_current_trial_shows_reports_as_they_happen_but_no_verdict(
    served: WebBoard, board: Leaderboard, tab: Tab
) -> None:
    page = tab.open(served.url)
    verdicts = page.locator(".verdicts li").count()
    run = Run()
    for event in SimulatedRun("mi", "gamma", 1.0, trials=1, seed=3).events():
        if event["kind"] == "packet" and event["triggers"] == [[0, 241]]:
            break
        board.event("gamma", "mi", event, run.feed(event), run)
    page.locator(".timelines circle.report").nth(2).wait_for()
    assert page.locator(".timelines line.trigger").count() >= 2
    assert page.locator(".verdicts li").count() == verdicts
    row = page.locator(".board tr", has_text="gamma").inner_text()
    assert "–" in row
    assert "running" in row


def test_the_signal_is_drawn(served: WebBoard, board: Leaderboard, tab: Tab) -> None:
    page = tab.open(served.url)
    samples = np.random.default_rng(0).normal(0, 20, (2000, 64)).astype(np.float32)
    board.signal("mi", samples, 1000.0, TRACKS["mi"].leads)
    page.locator("canvas.signal:not([hidden])").wait_for()
    painted = """() => {
        const c = document.querySelector("canvas.signal");
        return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v > 0);
    }"""
    page.wait_for_function(painted)


def test_it_survives_a_restart_of_the_judge(browser: Any, feed_board: Callable[..., Run]) -> None:
    first = Leaderboard("Finals")
    feed_board(first, "alpha", "mi", SimulatedRun("mi", "alpha", trials=2).events())
    tab = Tab(browser)
    with serving(first) as served:
        page = tab.open(served.url)
        wait_for_team(page, "alpha")
    page.locator("#live[data-state=lost]").wait_for()
    second = Leaderboard("Finals")
    feed_board(second, "alpha", "mi", SimulatedRun("mi", "alpha", trials=2).events())
    second.team("beta", "mi", "running")
    with serving(second, port=served.port):
        wait_for_team(page, "beta")
        assert teams(page) == ["alpha", "beta"]
        page.locator("#live[data-state=live]").wait_for()
        second.team("gamma", "mi", "running")
        wait_for_team(page, "gamma")
    unexpected = [text for text in tab.problems if "ERR_CONNECTION_REFUSED" not in text]
    assert [text for text in unexpected if "ERR_INCOMPLETE" not in text] == []
    tab.context.close()


SERVE = """
import json, sys, time
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.server import WebBoard
from tracks.run import Run

board, run = Leaderboard("Finals"), Run()
with open(sys.argv[2]) as log:
    for event in map(json.loads, log):
        board.event("alpha", "mi", event, run.feed(event), run)
page = WebBoard(board, port=int(sys.argv[1]))
page.start()
print(page.port, flush=True)
time.sleep(600)
"""


def start_judge(processes: Processes, port: int, log: Path) -> tuple["subprocess.Popen[str]", int]:
    """A process that shows a log, as a judge that was started again does."""
    judge = processes.start_program([sys.executable, "-c", SERVE, str(port), str(log)])
    assert judge.stdout is not None
    return judge, int(judge.stdout.readline())


def test_it_survives_a_judge_that_was_killed(
    browser: Any, write_log: Callable[..., Path], tmp_path: Path, processes: Processes
) -> None:
    whole = write_log("whole", SimulatedRun("mi", "alpha", trials=4)).read_text().splitlines()
    log = tmp_path / "run.jsonl"
    log.write_text("\n".join(whole[: len(whole) // 2]))
    judge, port = start_judge(processes, 0, log)
    tab = Tab(browser)
    page = tab.open(f"http://127.0.0.1:{port}/")
    page.locator(".board .k-status", has_text="running").wait_for()
    shown = page.locator(".verdicts li").count()
    judge.kill()
    judge.communicate()
    page.locator("#live[data-state=lost]").wait_for()
    assert page.locator(".verdicts li").count() == shown > 0  # it keeps what it has
    log.write_text("\n".join(whole))
    judge, _ = start_judge(processes, port, log)
    page.locator(".board .k-status", has_text="finished").wait_for()
    assert page.locator(".verdicts li").count() == 4
    assert page.locator("#live").get_attribute("data-state") == "live"
    judge.kill()
    judge.communicate()
    tab.context.close()
