"""A team's own page, and that what a team sends is text on all of them."""

from collections.abc import Callable

import pytest
from leaderboard.page.tab import Tab, serving, wait_for_team

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.process import WebBoard
from scripts.simulated_runs import SimulatedRun
from tracks.registry import TRACKS
from tracks.run import Run

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>&\'/?#%2F'


@pytest.mark.parametrize("track", list(TRACKS))
def test_a_team_page_shows_its_trials(track: str, tab: Tab, feed_board: Callable[..., Run]) -> None:
    board = Leaderboard()
    feed_board(board, "alpha", track, SimulatedRun(track, "alpha", trials=3).events())
    with serving(board) as served:
        page = tab.open(f"{served.url}#/{track}/alpha")
        page.locator(".tiles").wait_for()
        assert page.locator(".tall .trials tbody tr").count() == 3
        assert page.locator(".angles figure").count() == (8 if track == "ecog" else 0)
        assert page.locator(".confusion").count() == (0 if track == "ecog" else 1)
        assert tab.problems == []


def test_what_a_team_sends_stays_text(
    served: WebBoard, board: Leaderboard, tab: Tab, feed_board: Callable[..., Run]
) -> None:
    events = list(SimulatedRun("mi", HOSTILE, trials=2, end="crashed", detail=HOSTILE).events())
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
