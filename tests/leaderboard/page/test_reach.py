"""The page for every screen and reader: light, dark, small, large, keyboard, screen reader."""

from collections.abc import Callable
from typing import Any

import pytest
from leaderboard.page.tab import Tab, serving, wait_for_team

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.process import WebBoard
from scripts.simulated_runs import SimulatedRun
from tracks.run import Run


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
    where: str, board: Leaderboard, tab: Tab, feed_board: Callable[..., Run]
) -> None:
    feed_board(board, "alpha", "ecog", SimulatedRun("ecog", "alpha", trials=1).events())
    with serving(board) as served:
        page = tab.open(served.url + where)
        page.locator(".board, .tiles").first.wait_for()
        for width, height in ((360, 740), (768, 1024), (1440, 900), (1920, 1080), (3840, 2160)):
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_eight_teams_fit_on_one_projector_screen(
    board: Leaderboard, tab: Tab, feed_board: Callable[..., Run]
) -> None:
    for number in range(8):
        events = list(SimulatedRun("turing", f"team {number}", trials=3).events())
        feed_board(board, f"team {number}", "turing", events[:-1])
    with serving(board) as served:
        page = tab.open(f"{served.url}#/turing")
        page.set_viewport_size({"width": 1920, "height": 1080})
        ends = (
            "[...document.querySelectorAll('.panel')].map((n) => n.getBoundingClientRect().bottom)"
        )
        page.wait_for_function(f"() => Math.max(...{ends}) <= 1080")
        assert page.locator(".timelines li").count() == 8


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
    served: WebBoard, board: Leaderboard, tab: Tab, feed_board: Callable[..., Run]
) -> None:
    page = tab.open(f"{served.url}#/mi/alpha")
    page.locator(".tall").focus()
    feed_board(board, "alpha", "mi", SimulatedRun("mi", "alpha", trials=5, seed=9).events())
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
    served: WebBoard, board: Leaderboard, tab: Tab
) -> None:
    page = tab.open(served.url)
    page.locator(".board .name", has_text="beta").focus()
    board.team("gamma", "mi", "running")
    wait_for_team(page, "gamma")
    assert page.evaluate("document.activeElement.textContent") == "beta"
