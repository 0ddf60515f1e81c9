"""The leaderboard in a terminal."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import LeaderboardRow, Qualifying, rank
from bci_stream.leaderboard.terminal import SPARKS, live_tables, render_leaderboard, sparkline
from scripts.simulated_runs import SimulatedRun
from tracks.common.reasons import Reason
from tracks.run import Run


def printed(renderable: object, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(renderable)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_row_shows_all_columns() -> None:
    row = LeaderboardRow(
        "Alpha", "mi", unit="bits/min", score=21.784, accuracy=0.875, used=2.95, trials=24,
        latency_p50_s=0.0196, latency_p99_s=0.0645, status="lagging", lag_s=2.35,
    )  # fmt: skip
    text = printed(render_leaderboard(rank([row])))
    wanted = "1 Alpha 21.78 87.5% 2.95 24 20/64 lagging by 2.4 bits/min"
    for words in wanted.split(" "):
        assert words in text


def test_the_reason_and_the_tie_rule_are_shown() -> None:
    text = printed(
        render_leaderboard([LeaderboardRow("a", "mi", status="disqualified", reason="two keys")])
    )
    assert "disqualified (two keys)" in text
    assert "share the rank" in text


def test_a_hostile_name_reaches_the_terminal_as_text() -> None:
    text = printed(render_leaderboard([LeaderboardRow("\x1b[2J[bold]x[/bold]\x07", "mi")]))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x[/bold]" in text


def test_the_qualifying_line_is_drawn_under_the_last_team_above_it() -> None:
    rows = [
        LeaderboardRow(name, "mi", score=s, trials=1)
        for name, s in (("a", 3.0), ("b", 2.0), ("c", 1.0))
    ]
    with_line = printed(render_leaderboard(rank(rows, Qualifying(top=2)))).count("├")
    assert with_line == printed(render_leaderboard(rank(rows))).count("├") + 1


def test_the_teams_above_the_line_are_marked_and_the_mark_is_explained() -> None:
    rows = [LeaderboardRow(name, "mi", score=s, trials=1) for name, s in (("a", 3.0), ("b", 2.0))]
    text = printed(render_leaderboard(rank(rows, Qualifying(top=1))))
    assert "a ✓" in text
    assert "b ✓" not in text
    assert "✓ above the contest's qualifying line" in text
    assert "✓" not in printed(render_leaderboard(rank(rows)))


@pytest.mark.parametrize("width", [60, 64, 72, 80, 100, 116, 120])
def test_a_narrow_terminal_keeps_names_and_reasons_whole_and_leaves_columns_out(width: int) -> None:
    reason = "too much compute; the limit is 53.5 s"
    row = LeaderboardRow(
        "a-team-of-sixteen", "mi", trials=30, used=2.0, status="timeout", reason=reason
    )
    text = printed(render_leaderboard([row], {}), width)
    assert "…" not in text
    assert all(
        line.endswith(("│", "╮", "╯", "┤")) for line in text.splitlines() if line[:1] in "│╭╰├"
    )
    assert ("latency" in text) == (width >= 116)
    assert "timeout" in text


def test_a_board_without_teams_is_stated() -> None:
    assert "No team" in printed(render_leaderboard([]))


def test_the_last_table_stays_on_the_screen(feed_board: Callable[..., Run]) -> None:
    board = Leaderboard()
    console = Console(file=io.StringIO(), width=160, force_terminal=True)
    with live_tables(board, console):
        feed_board(board, "Alpha", "mi", SimulatedRun("mi", "Alpha", trials=2).events())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Alpha" in text
    assert "finished" in text
    assert "trial 2" in text


def test_alarms_stand_above_the_tables() -> None:
    board = Leaderboard()
    console = Console(file=io.StringIO(), width=160, force_terminal=True)
    with live_tables(board, console):
        board.team("Alpha", "mi")
        for _ in range(3):
            board.alarm(Reason("page_ended", exit_code=-9))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    alarm = "⚠ the page's process ended (exit code -9) and was started again (×3)"
    assert text.rindex(alarm) < text.rindex("Alpha")


def test_a_sparkline_is_full_at_its_highest_point() -> None:
    assert sparkline([(0, 0.0), (1, 4.0), (2, 2.0)]) == f"{SPARKS[0]}{SPARKS[-1]}{SPARKS[4]}"
    assert sparkline([(0, 0.0)]) == SPARKS[0]
    assert sparkline([]) == ""
