"""The feed from the judge's process to the page's: complete, without labels under embargo, never waiting."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bci_stream.leaderboard.board import VERDICTS_KEPT, Leaderboard
from bci_stream.leaderboard.updates import UPDATES_KEPT
from bci_stream.leaderboard.web.process import TRIALS_AT_ONCE, PageFeed
from bci_stream.leaderboard.web.published import (
    LENGTH,
    PageLimits,
    PageSettings,
    PublishedBoard,
    decode_message,
)
from scripts.simulated_runs import SimulatedRun
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.registry import TRACKS
from tracks.run import Run

SETTINGS = PageSettings(0.2, "", PageLimits(), None, 20)


class Link:
    """A feed, and the page that reads it as far as it is asked to."""

    def __init__(self, board: Leaderboard) -> None:
        ours, self._theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system's smallest
        self._theirs.setblocking(False)
        self.board = board
        self.feed = PageFeed(board, ours, SETTINGS)
        self.page = PublishedBoard()
        self.received = bytearray()
        self._rest = bytearray()

    def close(self) -> None:
        self.feed.close()
        self._theirs.close()

    def read(self) -> bool:
        """Take what has arrived; False if there was nothing."""
        try:
            piece = self._theirs.recv(1 << 20)
        except BlockingIOError:
            return False
        self.received += piece
        self._rest += piece
        while len(self._rest) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack(self._rest[: LENGTH.size])[0]
            if len(self._rest) < end:
                break
            self.page.take(decode_message(bytes(self._rest[LENGTH.size : end])))
            del self._rest[:end]
        return True

    def pump(self) -> None:
        """Write and read until all has arrived."""
        self.board.tick()
        while not self.feed.write() or self.read():
            self.read()


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link(Leaderboard("Finals"))
    yield made
    made.close()


def plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def assert_same(link: Link) -> None:
    """The page has exactly what the board shows."""
    board, page = link.board, link.page
    shown, got = plain(board.snapshot().data), plain(page.snapshot().data)
    assert got.pop("signal") == {}
    for data in (shown, got):
        data["rows"].sort(key=lambda row: (row["track"], row["order"]))
    assert got == shown
    assert page.rows() == board.rows()
    for track, team in board.team_keys():
        assert plain(page.detail(team, track)) == plain(board.detail(team, track))
    assert page.detail("nobody else", "mi") is None


def play(board: Leaderboard, team: str, track: str, **options: Any) -> Iterator[None]:
    run = Run()
    for event in SimulatedRun(track, team, **options).events():
        board.event(team, track, event, run.feed(event), run)
        yield


@pytest.mark.parametrize("every", [1, 7, 400])
@pytest.mark.parametrize("track", list(TRACKS))
def test_the_page_has_what_the_board_shows(link: Link, track: str, every: int) -> None:
    link.board.team("waiting", "erp")
    for number, _ in enumerate(play(link.board, "a", track, trials=3, seed=2)):
        if number % every == 0:
            link.pump()
            if number % (20 * every) == 0:
                assert_same(link)
    link.board.alarm(Reason("page_ended", exit_code=1))
    link.pump()
    assert_same(link)


def test_a_teams_next_run_replaces_its_last_one(link: Link) -> None:
    for trials in (4, 2):
        for _ in play(link.board, "a", "mi", trials=trials):
            pass
        link.pump()
        assert_same(link)


def test_a_long_run_is_sent_in_parts(link: Link) -> None:
    trials = 2 * TRIALS_AT_ONCE + 50
    for _ in play(link.board, "a", "erp", trials=trials):
        pass
    link.pump()
    assert_same(link)
    detail = link.page.detail("a", "erp")
    assert detail is not None
    assert len(detail["trials"]) == trials
    assert len(link.page.snapshot().data["verdicts"]) == VERDICTS_KEPT


def test_a_revised_verdict_reaches_the_page(link: Link) -> None:
    last, run = None, Run()
    for event in SimulatedRun("mi", "a", 1.0, trials=3, seed=3).events():
        verdicts = run.feed(event)
        link.board.event("a", "mi", event, verdicts, run)
        last = last or (verdicts[0] if verdicts else None)
    link.pump()
    assert isinstance(last, Verdict)
    void = replace(last, scored=False, answers=(), reasons=(Reason("judge_stopped"),))
    link.board.event("a", "mi", {"kind": "void"}, [void], run)
    link.pump()
    assert_same(link)
    detail = link.page.detail("a", "mi")
    assert detail is not None
    assert [trial["mark"] for trial in detail["trials"]] == ["unscored", "right", "right"]


def test_while_the_page_does_not_read_one_message_is_kept_for_it(link: Link) -> None:
    for number in range(60):
        link.board.team(f"team {number}", "mi", "running")
    link.pump()
    for number in range(UPDATES_KEPT + 50):
        for team in range(60):
            link.board.team(f"team {team}", "mi", "lagging", lag_s=float(number + 1))
        link.board.tick()
        is_written = link.feed.write()
    assert not is_written
    assert link.feed.full_since is not None
    assert len(link.feed._unsent) < 50_000
    assert not link.page.rows()[0].lag_s
    link.pump()
    assert link.feed.full_since is None
    assert_same(link)


def test_what_was_missed_for_too_long_comes_as_a_snapshot(link: Link) -> None:
    link.board.team("a", "mi")
    link.pump()
    cursor = link.page.snapshot().id
    link.board.team("a", "mi", "running")
    link.pump()
    assert link.page.tick() == 1
    assert len(link.page.after(cursor) or []) == 1
    for number in range(UPDATES_KEPT + 1):
        link.board.team("a", "mi", "lagging", lag_s=float(number))
        link.board.tick()
    link.pump()
    assert link.page.after(cursor) is None  # browsers get a snapshot too
    assert_same(link)


def sent_before_the_slow_team(swap_labels: bool) -> bytes:
    """All that the page got of a fast team in lockstep while another team is still in play."""
    link, run = Link(Leaderboard("Finals")), Run()
    link.board._log.boot = "same"
    link.board.team("slow", "mi", "running")
    for event in SimulatedRun("mi", "fast", 1.0, trials=3, seed=1).events():
        if event["kind"] == "run":
            event["pace"] = "lockstep"
        elif event["kind"] == "truth" and swap_labels:
            event["label"] = 1 if event["label"] != 1 else 2
        link.board.event("fast", "mi", event, run.feed(event), run)
        link.pump()
    sent = bytes(link.received)
    link.board.team("slow", "mi", "crashed")
    link.pump()
    detail = link.page.detail("fast", "mi")
    assert detail is not None
    assert len(detail["trials"]) == 3
    link.close()
    return sent


def test_labels_under_embargo_are_not_sent() -> None:
    """Two runs that differ only in their labels give the page the same bytes."""
    assert sent_before_the_slow_team(False) == sent_before_the_slow_team(True)
