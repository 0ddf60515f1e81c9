"""The operator's console in a real browser, with a judge, on memory streams."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from leaderboard.page.tab import Tab

from bci_stream.contest.contest import Contest
from bci_stream.contest.control_socket import ControlSocket
from bci_stream.judge.operator.desk import OperatorDesk
from bci_stream.judge.operator.journal import OperatorJournal, journal_path
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.process import WebBoard
from bci_stream.leaderboard.web.published import SignalSource
from bci_stream.packet import Lead
from bci_stream.wire import groups, names
from bci_stream.wire.transport import Transport
from tests.judge.test_judge import ImmediateExecutor
from tests.judge.test_operator import Operated
from tests.leaderboard.test_console import TOKEN as JUDGES_TOKEN
from tests.leaderboard.test_console import FakeJudge

TOKEN = "0123456789abcdef"


class Console:
    """A judge with its page; the judge polls while the test waits for the page."""

    def __init__(self, contest: Contest) -> None:
        contest.folder.mkdir(parents=True, exist_ok=True)
        self.scene = Operated(
            replace(contest, teams=("t0", "t1", "absent")), team_count=2, wanted=3
        )
        self.board = Leaderboard("Finals")
        self.scene.judge._sink = self.board
        for session in self.scene.judge.sessions:
            session._sink = self.board
        path = contest.folder / "j.sock"
        self.control = ControlSocket(path)
        journal = OperatorJournal(journal_path(contest.folder, contest.name))
        desk = OperatorDesk(
            self.scene.judge, self.board, journal, announce=self.board.announce, token=TOKEN
        )
        self.scene.judge.operator = lambda: self.control.take(desk.handle)
        self.page = WebBoard(self.board, port=0, period_s=0.02, console=str(path))
        self.page.start()

    def wait(self, locator: Any) -> None:
        """Poll the judge until the page shows it."""
        for _ in range(600):
            self.scene.judge.poll()
            if locator.count() and locator.first.is_visible():
                return
            locator.page.wait_for_timeout(50)
        pytest.fail(f"waited 30 s for {locator}")

    def close(self) -> None:
        self.page.stop()
        self.control.close()
        self.scene.judge.close()


@pytest.fixture
def console(contest: Contest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    monkeypatch.setattr(groups, "ThreadPoolExecutor", ImmediateExecutor)
    made = Console(contest)
    yield made
    made.close()


def test_a_final_is_operated_from_the_browser(console: Console, tab: Tab) -> None:
    scene, page = console.scene, tab.page
    page.goto(f"{console.page.url}console")
    page.locator("#token").fill("a guess")
    page.locator("#login button").click()
    console.wait(page.locator("#login-answer", has_text="not the organiser's token"))
    page.locator("#token").fill(TOKEN)
    page.locator("#login button").click()

    absent = page.locator("#teams tr", has_text="absent")
    console.wait(absent.locator(".why", has_text="not seen"))
    console.wait(page.locator("#teams tr[data-state=ready]", has_text="t0"))
    page.locator("#replays [data-action=go]").click()
    console.wait(page.locator("#answers .done", has_text="erp: begins with t0, t1"))
    scene.packets(2)
    console.wait(page.locator("#teams tr[data-state=running]", has_text="t1"))

    page.locator("#replays [data-action=pause]").click()
    console.wait(page.locator("#replays .state", has_text="paused"))
    page.locator("#replays [data-action=resume]").click()
    console.wait(page.locator("#replays .state", has_text="running"))

    page.locator("#teams tr", has_text="t1").locator("[data-action=forfeit]").click()
    page.locator("#ask-reason").fill("broken amplifier")
    page.locator("#ask-yes").click()
    console.wait(page.locator("#teams tr[data-state=forfeited]", has_text="broken amplifier"))
    page.locator("#teams tr", has_text="t1").locator("[data-action=readmit]").click()
    console.wait(page.locator("#teams tr[data-state=running]", has_text="t1"))

    page.locator("#void [name=block]").fill("1")
    page.locator("#void [name=trial]").fill("1")
    page.locator("#void [name=reason]").fill("wrong <b>cue</b>")
    page.locator("#void button").first.click()
    console.wait(page.locator("#answers .done", has_text="void: session 1, block 1, trial 1"))
    voided = [line for line in scene.lines("t0") if line["kind"] == "void"]
    assert [line["reason"] for line in voided] == ["wrong <b>cue</b>"]
    page.locator("#void [name=block]").fill("9")
    page.locator("#void [name=reason]").fill("x")
    page.locator("#void button").first.click()
    console.wait(page.locator("#answers .refused", has_text="there is no session 1, block 9"))
    page.locator("#void [name=block]").fill("1")
    page.locator("#void button[value=replay-block]").click()
    console.wait(page.locator("#answers .done", has_text="is played again at the end"))
    assert [line["again"] for line in scene.lines("t1") if "again" in line] == [True]

    page.locator("#announce-form [name=text]").fill("Back at 14:00")
    page.locator("#announce-form button").click()
    console.wait(page.locator("#answers .done", has_text="shown: Back at 14:00"))
    page.locator("#language").click()
    console.wait(page.locator("#teams th", has_text="队伍"))
    refusals = ("401", "403", "409")
    assert [text for text in tab.problems if not any(code in text for code in refusals)] == []

    page.goto(console.page.url)
    console.wait(page.locator("#announcement", has_text="Back at 14:00"))


@pytest.mark.lsl
def test_the_organiser_sees_the_signal_and_its_faults(
    contest: Contest, tab: Tab, tmp_path: Path, lsl_transport: Transport
) -> None:
    """Lead choice, filter and scale; one lead is flat."""
    leads = tuple(Lead(f"E{k}") for k in range(1, 13))
    spec = names.signal_stream(contest.name, "replay", 250.0, leads, track="mi")
    source = SignalSource(contest.name, "machine", os.environ["BCI_LSL_SESSION"])
    stopped = threading.Event()
    with closing(FakeJudge(tmp_path / "j.sock")) as judge, ExitStack() as opened:
        outlet = opened.enter_context(closing(lsl_transport.sample_outlet(spec)))

        def push() -> None:
            random = np.random.default_rng(0)
            while not stopped.wait(0.1):
                samples = random.normal(0, 20, (25, len(leads) + 1)).astype(np.float32)
                samples[:, 4] = 1.0
                outlet.push(samples, lsl_transport.now())

        replay = threading.Thread(target=push)
        replay.start()
        opened.callback(replay.join)
        opened.callback(stopped.set)
        served = WebBoard(
            Leaderboard("Finals"), port=0, signal=source, console=str(judge._control.path)
        )
        served.start()
        opened.callback(served.stop)
        page = tab.page
        page.goto(f"{served.url}console")
        page.locator("#token").fill(JUDGES_TOKEN)
        page.locator("#login button").click()
        page.locator("#health th", has_text="Signal mi").wait_for()
        page.locator("#signal-panel summary").click()
        page.locator("#signal-quality li[data-quality=flat]", has_text="E5").wait_for()
        page.locator("#signal-form [name=leads]").select_option(["E5", "E7"])
        page.locator("#signal-form [name=band]").select_option("1-40")
        page.locator("#signal-form [name=scale]").select_option("100")
        with page.expect_response(lambda answer: "leads=E5%2CE7" in answer.url) as answered:
            pass
        view = answered.value.json()
        assert view["leads"] == ["E5", "E7"]
        painted = """() => ["signal-traces", "signal-spectrum"].every((id) => {
            const c = document.getElementById(id);
            return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v > 0);
        })"""
        page.wait_for_function(painted)
        assert [text for text in tab.problems if "401" not in text] == []
