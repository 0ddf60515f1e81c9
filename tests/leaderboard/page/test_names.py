"""Display names and missing teams on the page, and the published copy of it."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from leaderboard.page.tab import Tab, serving, teams

from bci_stream.contest.contest import load_contest
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.publish import publish
from scripts.simulated_runs import SimulatedRun
from tracks.common.reasons import Reason
from tracks.run import Run

NAMES = {"alpha": "清华脑机一队", "beta": "Alpha Waves"}


def named_board(feed_board: Callable[..., Run]) -> Leaderboard:
    board = Leaderboard("Finals", display_name=lambda team: NAMES.get(team, ""))
    for team, skill in {"alpha": 0.95, "beta": 0.4}.items():
        feed_board(board, team, "mi", SimulatedRun("mi", team, skill, trials=3, seed=3).events())
    board.team("carol", "mi", "missing", Reason("token_revoked", team="carol"))
    return board


def test_teams_have_their_names_and_a_missing_one_its_reason(feed_board, tab: Tab) -> None:
    with serving(named_board(feed_board)) as served:
        page = tab.open(served.url)
        assert teams(page) == ["清华脑机一队", "Alpha Waves", "carol"]
        missing = page.locator("tr[data-key='mi/carol']")
        assert "missing" in missing.inner_text()
        assert "the token of team carol is revoked" in missing.inner_text()
        assert "清华脑机一队" in page.locator(".verdicts").inner_text()
        page.locator("tr[data-key='mi/alpha'] td.k-score").click()
        page.locator("h1", has_text="清华脑机一队").wait_for()
        page.wait_for_function("() => document.title.startsWith('清华脑机一队')")
        assert tab.problems == []


@pytest.fixture
def copy_url(tmp_path: Path, write_log: Callable[..., Path]) -> Iterator[str]:
    """A published contest on a plain file server."""
    (tmp_path / "cup" / "runs").mkdir(parents=True)
    (tmp_path / "cup" / "contest.toml").write_text(
        'name = "c"\ntitle = "Finals 2026"\nteams = ["alpha", "carol"]\n[tracks.mi]\n'
        '[team.alpha]\nname = "清华脑机一队"\n[[awards]]\nname = "特等奖"\n',
        encoding="utf-8",
    )
    for track in ("mi", "erp"):
        log = write_log(f"{track}-alpha", SimulatedRun(track, "alpha", 0.9, trials=3))
        log.rename(tmp_path / "cup" / "runs" / log.name)
    publish(load_contest(tmp_path / "cup"), tmp_path / "public")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "public"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_published_copy_works_on_any_web_server(copy_url: str, tab: Tab) -> None:
    page = tab.open(copy_url)
    assert teams(page) == ["清华脑机一队", "carol"]
    assert page.locator("#contest").inner_text() == "Finals 2026"
    page.locator("#live-text", has_text="Final results").wait_for()
    assert not page.locator(".panel.eeg").is_visible()
    page.locator(".board .name").first.click()
    page.locator(".tiles").wait_for()
    assert page.locator("table.trials tbody tr").count() >= 3
    page.locator("#tracks a", has_text="All tracks").click()
    page.locator("h2", has_text="Awards").wait_for()
    cells = page.locator(".panel table tbody tr").first.locator("td").all_inner_texts()
    assert [cells[0], cells[2], cells[3]] == ["特等奖", "清华脑机一队", "1"]
    assert page.locator("h2", has_text="All tracks").count() == 1
    assert tab.problems == []
