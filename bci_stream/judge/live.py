"""`bci-judge live`: judge what is on the wire, and show it in the terminal and on a page."""

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

from bci_stream.board.feed import Board
from bci_stream.board.standing import Qualifying
from bci_stream.contest.contest import Contest
from bci_stream.judge.judge import Judge
from bci_stream.wire.transport import Transport


def judge_live(
    transport: Transport,
    contest: Contest,
    *,
    team_count: int,
    wait_s: float,
    port: int,
    host: str,
    no_web: bool,
    stay: bool,
    stop: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Runs until every run is over (with `stay`: until it is stopped)."""
    board = Board(contest.name, Qualifying(contest.qualify.top, contest.qualify.least_score))
    wanted = set(contest.teams)
    judge = Judge(
        transport,
        contest,
        board,
        stop=stop,
        expected=lambda teams: wanted <= set(teams) if wanted else len(teams) >= team_count,
    )
    with ExitStack() as shown:
        if not no_web:
            from bci_stream.board.web import WebBoard

            page = WebBoard(board, host, port)
            page.start()
            shown.callback(page.stop)
            say(f"leaderboard: {page.url}")
        if sys.stdout.isatty():
            from bci_stream.board.terminal import TerminalBoard

            shown.enter_context(TerminalBoard(board))
        else:
            say(f"waiting for replays and teams of contest {contest.name!r}")
        judge.judge(lambda j: not stay and j.all_over(), wait_s)
    _last_word(judge, board, say)


def _last_word(judge: Judge, board: Board, say: Callable[[str], None]) -> None:
    from rich.console import Console

    from bci_stream.board.terminal import render_leaderboard

    if not sys.stdout.isatty():
        Console(width=120).print(render_leaderboard(board.rows()))
    for run in judge.runs():
        say(f"{run.team}: {run.ended}; run log {run.path}")
    for hearing in judge.hearings:
        for why, count in hearing.dropped.items():
            say(f"replay {hearing.name}: {count} messages dropped ({why})")
        for complaint, count in hearing.complaints.items():
            say(f"replay {hearing.name}: {complaint} ({count} times)")
