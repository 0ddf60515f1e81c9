"""The page is updated live, and survives a restart and a kill of the judge."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from leaderboard.page.tab import Tab, serving, teams, wait_for_team
from processes import Processes

from bci_stream.contest.contest import Contest
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.process import WebBoard
from bci_stream.leaderboard.web.published import SignalSource
from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.transport import Transport
from scripts.simulated_runs import SimulatedRun
from tracks.common.reasons import Reason
from tracks.registry import TRACKS
from tracks.run import Run

MEASURED_COLUMNS = ("channels", "calibration", "size", "reaction")


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
    page.wait_for_function("() => document.querySelector('.board .name').textContent === 'gamma'")
    assert page.locator("#announce").inner_text().startswith("gamma leads with")
    assert page.locator(".board .k-calibration").count() == 0  # nothing was measured
    figures = {"leads": 8, "calibration": 2.5, "size_mib": 0.0123, "reaction_ms": 41.06}
    board.measured("gamma", "mi", figures)
    page.locator(".board .k-calibration").first.wait_for()
    shown = page.locator(".board tr", has_text="gamma")
    cells = [shown.locator(f".k-{name}").inner_text() for name in MEASURED_COLUMNS]
    assert cells == ["8", "2.5", "0.0123 MiB", "41.1 ms"]
    page.locator("#tracks a", has_text="All tracks").click()
    cells = page.locator("main tbody tr").filter(has_text="gamma").locator("td")
    assert cells.all_inner_texts() == ["1", "gamma", "–", "1", "2"]  # ecog has no place yet
    board.event("gamma", "mi", {"kind": "end", "reason": "disqualified"}, [], run)
    page.locator("main tbody tr").filter(has_text="gamma").wait_for(state="detached")
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


@pytest.mark.lsl
def test_the_signal_is_drawn(
    board: Leaderboard, tab: Tab, contest: Contest, lsl_transport: Transport
) -> None:
    """The page's process reads it from LSL."""
    leads = tuple(map(Lead, TRACKS["mi"].leads))
    spec = names.signal_stream(contest.name, "replay", 1000.0, leads, track="mi")
    outlet = lsl_transport.sample_outlet(spec)
    source = SignalSource(contest.name, "machine", os.environ["BCI_LSL_SESSION"])
    stopped = threading.Event()

    def push() -> None:
        random = np.random.default_rng(0)
        while not stopped.wait(0.1):
            samples = random.normal(0, 20, (100, len(leads) + 1)).astype(np.float32)
            outlet.push(samples, lsl_transport.now())

    replay = threading.Thread(target=push)
    replay.start()
    try:
        with serving(board, signal=source) as served:
            page = tab.open(served.url)
            page.locator("canvas.signal:not([hidden])").wait_for()
            painted = """() => {
                const c = document.querySelector("canvas.signal");
                return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v > 0);
            }"""
            page.wait_for_function(painted)
    finally:
        stopped.set()
        replay.join()
        outlet.close()


def test_an_alarm_is_shown_in_both_languages(
    served: WebBoard, board: Leaderboard, tab: Tab
) -> None:
    page = tab.open(served.url)
    alarms = page.locator("#alarms")
    assert not alarms.is_visible()
    board.alarm(Reason("page_ended", exit_code=-9))
    board.alarm(Reason("page_ended", exit_code=-9))
    alarms.locator("li", has_text="(exit code -9) and was started again (×2)").wait_for()
    page.locator("#language").click()
    alarms.locator("li", has_text="退出码 -9").wait_for()
    assert tab.problems == []


def test_a_revised_verdict_replaces_the_earlier_one(
    served: WebBoard, board: Leaderboard, tab: Tab
) -> None:
    page = tab.open(served.url)
    run, last = Run(), None
    for event in SimulatedRun("mi", "gamma", 1.0, trials=2, seed=3).events():
        verdicts = run.feed(event)
        board.event("gamma", "mi", event, verdicts, run)
        last = verdicts[-1] if verdicts else last
    of_gamma = page.locator(".verdicts li", has_text="gamma")
    of_gamma.nth(1).wait_for()
    assert last is not None
    void = replace(last, scored=False, reasons=(Reason("judge_stopped"),))
    board.event("gamma", "mi", {"kind": "void"}, [void], run)
    page.locator(".verdicts li.unscored", has_text="the judge was stopped").wait_for()
    assert of_gamma.count() == 2


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
    expected = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE")
    assert [text for text in tab.problems if not any(why in text for why in expected)] == []
    tab.context.close()


SERVE = """
import json, sys, time
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.process import WebBoard
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
