"""The page in a real browser: headless Chromium, where there is one."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bci_stream.board.feed import Board
from bci_stream.board.fold import fold
from bci_stream.board.rehearsal import Rehearsal
from bci_stream.board.standing import Qualifying
from bci_stream.board.web import WebBoard
from tracks.registry import TRACKS
from tracks.run import Run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>&\'/?#%2F'
Page = Any


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def board(feed_board: Callable[..., Run]) -> Board:
    board = Board("Finals", Qualifying(top=1))
    for team, skill in {"alpha": 0.95, "beta": 0.4}.items():
        feed_board(board, team, "mi", Rehearsal("mi", team, skill, trials=3, seed=3).events())
    board.team("alpha", "ecog", "running")
    return board


@contextmanager
def serving(board: Board, port: int = 0) -> Iterator[WebBoard]:
    served = WebBoard(board, port=port, period_s=0.02)
    served.start()
    try:
        yield served
    finally:
        served.stop()


@pytest.fixture
def served(board: Board) -> Iterator[WebBoard]:
    with serving(board) as page:
        yield page


class Tab:
    """A browser tab that remembers what went wrong and what was asked for."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(locale="en-US", reduced_motion="reduce", **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def open(self, url: str) -> Page:
        self.page.goto(url)
        self.page.wait_for_selector(".board tbody tr, .tiles, .empty")
        return self.page


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    made = Tab(browser)
    yield made
    made.context.close()


def teams(page: Page) -> list[str]:
    return page.locator(".board tbody .name").all_inner_texts()  # type: ignore[no-any-return]


def wait_for_team(page: Page, name: str) -> None:
    page.locator(".board .name", has_text=name).wait_for()


def test_it_loads_without_an_error_and_asks_nobody_but_the_judge(
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


def test_it_updates_live(served: WebBoard, board: Board, tab: Tab) -> None:
    page = tab.open(served.url)
    run = Run()
    for event in Rehearsal("mi", "gamma", 1.0, trials=2, seed=3).events():
        board.event("gamma", "mi", event, run.feed(event), run)
    wait_for_team(page, "gamma")
    page.wait_for_function("document.querySelector('.board .name').textContent === 'gamma'")
    assert page.locator("#announce").inner_text().startswith("gamma leads with")
    assert tab.problems == []


def test_the_current_trial_shows_reports_as_they_happen_but_no_verdict(
    served: WebBoard, board: Board, tab: Tab
) -> None:
    page = tab.open(served.url)
    verdicts = page.locator(".verdicts li").count()
    run = Run()
    for event in Rehearsal("mi", "gamma", 1.0, trials=1, seed=3).events():
        if event["kind"] == "packet" and event["triggers"] == [[0, 241]]:
            break
        board.event("gamma", "mi", event, run.feed(event), run)
    page.locator(".lanes circle.report").nth(2).wait_for()
    assert page.locator(".lanes line.trigger").count() >= 2
    assert page.locator(".verdicts li").count() == verdicts
    row = page.locator(".board tr", has_text="gamma").inner_text()
    assert "–" in row
    assert "running" in row


def test_it_survives_a_restart_of_the_judge(browser: Any, feed_board: Callable[..., Run]) -> None:
    first = Board("Finals")
    feed_board(first, "alpha", "mi", Rehearsal("mi", "alpha", trials=2).events())
    tab = Tab(browser)
    with serving(first) as served:
        page = tab.open(served.url)
        wait_for_team(page, "alpha")
    page.locator("#live[data-state=lost]").wait_for()
    second = Board("Finals")
    feed_board(second, "alpha", "mi", Rehearsal("mi", "alpha", trials=2).events())
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
from bci_stream.board.feed import Board
from bci_stream.board.web import WebBoard
from tracks.run import Run

board, run = Board("Finals"), Run()
with open(sys.argv[2]) as log:
    for event in map(json.loads, log):
        board.event("alpha", "mi", event, run.feed(event), run)
page = WebBoard(board, port=int(sys.argv[1]))
page.start()
print(page.port, flush=True)
time.sleep(600)
"""


def start_judge(port: int, log: Path) -> tuple[subprocess.Popen[str], int]:
    """A process that shows a log, as a judge that was started again does."""
    command = [sys.executable, "-c", SERVE, str(port), str(log)]
    judge = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert judge.stdout is not None
    return judge, int(judge.stdout.readline())


def test_it_survives_a_judge_that_was_killed(
    browser: Any, write_log: Callable[..., Path], tmp_path: Path
) -> None:
    whole = write_log("whole", Rehearsal("mi", "alpha", trials=4)).read_text().splitlines()
    log = tmp_path / "run.jsonl"
    log.write_text("\n".join(whole[: len(whole) // 2]))
    judge, port = start_judge(0, log)
    tab = Tab(browser)
    page = tab.open(f"http://127.0.0.1:{port}/")
    page.locator(".board .k-status", has_text="running").wait_for()
    shown = page.locator(".verdicts li").count()
    judge.kill()
    judge.communicate()
    page.locator("#live[data-state=lost]").wait_for()
    assert page.locator(".verdicts li").count() == shown > 0  # it keeps what it has
    log.write_text("\n".join(whole))
    judge, _ = start_judge(port, log)
    page.locator(".board .k-status", has_text="finished").wait_for()
    assert page.locator(".verdicts li").count() == 4
    assert page.locator("#live").get_attribute("data-state") == "live"
    judge.kill()
    judge.communicate()
    tab.context.close()


def test_what_a_team_sends_stays_text(
    served: WebBoard, board: Board, tab: Tab, feed_board: Callable[..., Run]
) -> None:
    events = list(Rehearsal("mi", HOSTILE, trials=2, end="crashed", detail=HOSTILE).events())
    for event in events:
        if event["kind"] == "report":
            event["result"] = HOSTILE
        if event["kind"] == "session":
            event["subject"] = HOSTILE
    feed_board(board, HOSTILE, "mi", events)
    page = tab.open(served.url)
    wait_for_team(page, HOSTILE)
    page.locator(".board .name", has_text=HOSTILE).click()
    page.locator("h1", has_text=HOSTILE).wait_for()
    page.locator(".trials .why").first.wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, main script").count() == 0
    assert tab.problems == []


@pytest.mark.parametrize("track", list(TRACKS))
def test_a_team_page_shows_its_trials(track: str, tab: Tab, feed_board: Callable[..., Run]) -> None:
    board = Board()
    feed_board(board, "alpha", track, Rehearsal(track, "alpha", trials=3).events())
    with serving(board) as served:
        page = tab.open(f"{served.url}#/{track}/alpha")
        page.locator(".tiles").wait_for()
        assert page.locator(".tall .trials tbody tr").count() == 3
        assert page.locator(".angles figure").count() == (8 if track == "ecog" else 0)
        assert page.locator(".confusion").count() == (0 if track == "ecog" else 1)
        assert tab.problems == []


def test_it_speaks_chinese_and_remembers_it(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    page.locator("#language").click()
    page.locator("h2", has_text="排行榜").wait_for()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.reload()
    page.locator("h2", has_text="排行榜").wait_for()
    assert "运动想象" in page.locator("#tracks").inner_text()


def test_both_languages_have_every_word(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    missing = page.evaluate(
        """async () => {
            const source = await (await fetch("/static/i18n.js")).text();
            const words = (text) => [...text.matchAll(/(\\w+): "/g)].map((m) => m[1]).sort().join();
            const [, en, zh] = source.split(/\\n  (?:en|zh): {/);
            return words(en) === words(zh.split("\\n  },")[0]) ? "" : "differ";
        }"""
    )
    assert missing == ""


def test_the_reasons_of_all_golden_logs_are_told_in_chinese(served: WebBoard, tab: Tab) -> None:
    """If the rules word a reason anew, reasons.js must learn it."""
    page = tab.open(served.url)
    untold = page.evaluate(
        """async (texts) => {
            const { reasonIn } = await import("/static/reasons.js");
            return texts.filter((text) => !/[\\u4e00-\\u9fff]/.test(reasonIn("zh", text)));
        }""",
        sorted(golden_reasons()),
    )
    assert [text for text in untold if not text.startswith("NRMSE")] == []


def golden_reasons() -> set[str]:
    found: set[str] = set()
    for path in (Path(__file__).parents[1] / "golden").glob("*.jsonl.gz"):
        for trial in fold(path).view.detail()["trials"]:
            found |= set(trial["reason"].split("; ")) - {"", "…"}
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_or_dark_as_the_reader_likes(
    scheme: str, served: WebBoard, browser: Any
) -> None:
    tab = Tab(browser, color_scheme=scheme)
    page = tab.open(served.url)
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert (page.evaluate(brightness) > 128) == (scheme == "light")
    page.locator("#theme").click()
    assert (page.evaluate(brightness) > 128) == (scheme == "dark")
    tab.context.close()


@pytest.mark.parametrize("where", ["", "#/mi/alpha", "#/ecog/alpha"])
def test_it_fits_phones_and_projectors(
    where: str, board: Board, tab: Tab, feed_board: Callable[..., Run]
) -> None:
    feed_board(board, "alpha", "ecog", Rehearsal("ecog", "alpha", trials=1).events())
    with serving(board) as served:
        page = tab.open(served.url + where)
        page.locator(".board, .tiles").first.wait_for()
        for width, height in ((360, 740), (768, 1024), (1440, 900), (1920, 1080), (3840, 2160)):
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_everything_can_be_reached_with_the_keyboard(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.className") != "name":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("h1", has_text="alpha").wait_for()


def test_a_screen_reader_is_given_names_roles_and_headings(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    tree = page.locator("body").aria_snapshot()
    for words in (
        'table "Leaderboard"',
        'columnheader "Score"',
        'rowheader "alpha',
        'heading "Verdicts"',
    ):
        assert words in tree
    assert 'navigation "Tracks"' in tree
    assert page.locator("button:not([aria-label]), svg[role=img]:not([aria-label])").count() == 0


def test_focus_stays_on_a_teams_page_while_it_is_redrawn(
    served: WebBoard, board: Board, tab: Tab, feed_board: Callable[..., Run]
) -> None:
    page = tab.open(f"{served.url}#/mi/alpha")
    page.locator(".tall").focus()
    feed_board(board, "alpha", "mi", Rehearsal("mi", "alpha", trials=5, seed=9).events())
    page.locator(".tall tbody tr").nth(4).wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Trials"
    page.locator("main a").first.focus()
    board.team("alpha", "mi", "disqualified", "two keys")
    page.locator("h1", has_text="two keys").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "← All teams"


def test_another_page_begins_at_its_top_for_the_keyboard_too(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    page.locator(".board .name", has_text="beta").click()
    page.locator("h1", has_text="beta").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"


def test_focus_stays_on_a_team_while_the_table_is_redrawn(
    served: WebBoard, board: Board, tab: Tab
) -> None:
    page = tab.open(served.url)
    page.locator(".board .name", has_text="beta").focus()
    board.team("gamma", "mi", "running")
    wait_for_team(page, "gamma")
    assert page.evaluate("document.activeElement.textContent") == "beta"


def test_the_signal_is_drawn(served: WebBoard, board: Board, tab: Tab) -> None:
    import numpy as np

    page = tab.open(served.url)
    samples = np.random.default_rng(0).normal(0, 20, (2000, 64)).astype(np.float32)
    board.signal("mi", samples, 1000.0, TRACKS["mi"].leads)
    page.locator("canvas.signal:not([hidden])").wait_for()
    painted = """() => {
        const c = document.querySelector("canvas.signal");
        return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v > 0);
    }"""
    page.wait_for_function(painted)
