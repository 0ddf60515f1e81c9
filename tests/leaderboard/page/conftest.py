"""The page is tested in a real browser: headless Chromium, where there is one."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from leaderboard.page.tab import Tab, serving

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.web.process import WebBoard
from scripts.simulated_runs import SimulatedRun
from tracks.run import Run

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium is installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def board(feed_board: Callable[..., Run]) -> Leaderboard:
    board = Leaderboard("Finals", Qualifying(top=1))
    for team, skill in {"alpha": 0.95, "beta": 0.4}.items():
        feed_board(board, team, "mi", SimulatedRun("mi", team, skill, trials=3, seed=3).events())
    board.team("alpha", "ecog", "running")
    return board


@pytest.fixture
def served(board: Leaderboard) -> Iterator[WebBoard]:
    with serving(board) as page:
        yield page


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    made = Tab(browser)
    yield made
    made.context.close()
