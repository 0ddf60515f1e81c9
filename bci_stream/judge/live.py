"""`bci-judge live`: judge what is on the wire, and show it in the terminal and on a page."""

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

from rich.console import Console

from bci_stream.board.feed import Board
from bci_stream.board.fold import fold_log
from bci_stream.board.standing import Qualifying
from bci_stream.board.store import open_store
from bci_stream.board.terminal import TerminalBoard, render_leaderboard
from bci_stream.board.web import WebBoard
from bci_stream.contest.contest import Contest
from bci_stream.judge.judge import Judge
from bci_stream.judge.lock import only_judge
from bci_stream.judge.signal_view import SignalView
from bci_stream.wire.transport import Transport

STORE = "contest.sqlite"


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
    with only_judge(contest):
        board = Board(contest.name, Qualifying(contest.qualify.top, contest.qualify.least_score))
        store = open_store(str(contest.folder / STORE))
        judge = _judge(transport, contest, board, team_count, stop)
        with ExitStack() as shown:
            shown.callback(store.close)
            if not no_web:
                page = WebBoard(board, host, port, store=str(contest.folder / STORE))
                page.start()
                shown.callback(page.stop)
                shown.enter_context(SignalView(transport, contest.name, board))
                say(f"leaderboard: {page.url}")
            say(
                f"waiting for replays of contest {contest.name!r}, and {_awaited(contest, team_count)}"
            )
            if sys.stdout.isatty():
                shown.enter_context(TerminalBoard(board))
            runs = judge.judge(lambda j: not stay and j.all_over(), wait_s)
            _last_word(judge, board, say)
            for run in runs:
                store.put(fold_log(run.path, contest.name))


def _awaited(contest: Contest, team_count: int) -> str:
    """Who must be ready before the go; without it an organiser could wait for a team that nobody awaits."""
    if contest.teams:
        return f"all teams of its file: {', '.join(sorted(contest.teams))}"
    return f"{team_count} {'team' if team_count == 1 else 'teams'} (--teams)"


def _judge(
    transport: Transport, contest: Contest, board: Board, team_count: int, stop: threading.Event
) -> Judge:
    wanted = set(contest.teams)
    return Judge(
        transport,
        contest,
        board,
        stop=stop,
        expected=lambda teams: wanted <= set(teams) if wanted else len(teams) >= team_count,
    )


def _last_word(judge: Judge, board: Board, say: Callable[[str], None]) -> None:
    if not sys.stdout.isatty():
        Console(width=120).print(render_leaderboard(board.rows()))
    for run in judge.runs():
        say(f"{run.team}: {run.ended}; run log {run.path}")
    for hearing in judge.hearings:
        for why, count in hearing.dropped.items():
            say(f"replay {hearing.name}: {count} messages dropped ({why})")
        for complaint, count in hearing.complaints.items():
            say(f"replay {hearing.name}: {complaint} ({count} times)")
