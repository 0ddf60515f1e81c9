"""`bci-judge live`: judges the replays on the network, with a leaderboard in the terminal and on a page."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console

from bci_stream.clock import SAME_CLOCK_S
from bci_stream.contest.contest import Contest
from bci_stream.contest.control_socket import HAS_UNIX_SOCKETS, ControlSocket, socket_path
from bci_stream.contest.keys import CONSOLE_TOKEN
from bci_stream.contest.start import StartGate
from bci_stream.errors import ContestError, LogError, PageError
from bci_stream.judge.judge import Judge
from bci_stream.judge.operator.desk import OperatorDesk
from bci_stream.judge.operator.journal import OperatorJournal, journal_path
from bci_stream.judge.session.team_run import TeamRun
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.fold import fold_log
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.store import Store, open_store
from bci_stream.leaderboard.terminal import live_tables, render_leaderboard
from bci_stream.leaderboard.web.process import WebBoard
from bci_stream.leaderboard.web.published import PageLimits, SignalSource
from bci_stream.wire.transport import Transport

logger = logging.getLogger(__name__)


@contextmanager
def only_judge(contest: Contest) -> Iterator[None]:
    """Lock the contest; raises ContestError, with the owner's pid, if another judge holds it."""
    contest.folder.mkdir(parents=True, exist_ok=True)
    path = contest.folder / f"judge-{contest.name}.lock"
    pid_file = path.with_suffix(".pid")
    try:
        lock = FileLock(path, mode=0o600).acquire(
            timeout=0
        )  # another user could hold a readable one
    except Timeout as error:
        owner = pid_file.read_text().strip() if pid_file.exists() else "unknown"
        raise ContestError(
            f"contest {contest.name!r} has a judge already (pid {owner}): two would write two logs "
            "of one run; stop that one first, or choose another --contest or --room"
        ) from error
    with lock:
        pid_file.write_text(f"{os.getpid()}\n")
        yield


STORE = "contest.sqlite"


def control_path(contest: Contest) -> Path:
    return socket_path(contest.folder, contest.name)


@dataclass(frozen=True)
class PageOptions:
    """Where the page is served, its bounds on connections, and the settings of LSL for its signal."""

    host: str
    port: int
    connections: int
    per_address: int
    scope: str
    lsl_session: str
    console: bool = False
    metrics: bool = False


def judge_live(
    transport: Transport,
    contest: Contest,
    *,
    team_count: int,
    wait_s: float,
    page: PageOptions | None,
    stay: bool,
    stop: threading.Event,
) -> None:
    """Judge until every run is over; with `stay`, until it is stopped. page: None for no web page."""
    with only_judge(contest), ExitStack() as shown:
        board = Leaderboard(
            contest.title or contest.name,
            Qualifying(contest.qualify.top, contest.qualify.least_score),
            teams_of=contest.teams_of,
            display_name=contest.display_name,
        )
        if page is not None:
            shown.callback(_start_page(page, contest, board).stop)
        store = open_store(str(contest.folder / STORE))
        shown.callback(store.close)
        judge = _judge(transport, contest, board, team_count, stop)
        if HAS_UNIX_SOCKETS:
            has_console = page is not None and page.console
            judge.operator = shown.enter_context(_operator(judge, board, has_console=has_console))
        awaited = _awaited(contest, team_count)
        logger.info("waiting for replays of contest %r, and %s", contest.name, awaited)
        if sys.stdout.isatty():
            shown.enter_context(live_tables(board))
        runs = judge.judge(lambda j: not stay and j.all_over(), wait_s)
        board.close()
        _print_summary(judge, board)
        for run in runs:
            _store(store, run, contest.name)


@contextmanager
def _operator(
    judge: Judge, board: Leaderboard, *, has_console: bool
) -> Iterator[Callable[[], None]]:
    """Open the judge's socket and journal; yields what does the operator's requests."""
    contest = judge.contest
    token = contest.keys.console_token() if has_console else ""
    journal = OperatorJournal(journal_path(contest.folder, contest.name))
    with closing(journal), closing(ControlSocket(control_path(contest))) as sockets:
        desk = OperatorDesk(judge, board, journal, announce=board.announce, token=token)
        judge.restore = desk.restore
        yield lambda: sockets.take(desk.handle)


def _start_page(page: PageOptions, contest: Contest, board: Leaderboard) -> WebBoard:
    """Start the page; raises PageError if its port can't be used."""
    served = WebBoard(
        board,
        page.host,
        page.port,
        store=str(contest.folder / STORE),
        limits=PageLimits(page.connections, page.per_address),
        signal=SignalSource(contest.name, page.scope, page.lsl_session),
        console=str(control_path(contest)) if page.console else "",
        metrics=str(control_path(contest)) if page.metrics else "",
    )
    if page.metrics and find_spec("prometheus_client") is None:
        raise PageError(
            "--metrics needs prometheus-client, which is not installed: pip install 'bci-stream[metrics]'"
        )
    served.start()
    logger.info("leaderboard: %s", served.url)
    if page.console:
        contest.keys.console_token()
        where = contest.folder / "keys" / CONSOLE_TOKEN
        logger.info("operator's console: %sconsole; its token is in %s", served.url, where)
        if page.host not in ("127.0.0.1", "localhost", "::1"):
            logger.warning(
                "the console is served on %s without encryption: use it through an SSH tunnel or a proxy "
                "with TLS only",
                page.host,
            )
    return served


def _awaited(contest: Contest, team_count: int) -> str:
    """What a run waits for, by track."""
    if not contest.team_list():
        teams = f"{team_count} {'team' if team_count == 1 else 'teams'} (--teams)"
        return f"{teams}; a run begins {contest.start_policy('')}"
    return "; ".join(
        f"{track or 'all tracks'}: {', '.join(contest.teams_of(track))}; a run begins "
        f"{contest.start_policy(track)}"
        for track in contest.tracks or ("",)
    )


def _judge(
    transport: Transport,
    contest: Contest,
    board: Leaderboard,
    team_count: int,
    stop: threading.Event,
) -> Judge:
    gate = StartGate(contest.start_policy, contest.teams_of, team_count)
    return Judge(transport, contest, board, stop=stop, gate=gate)


def _store(store: Store, run: TeamRun, contest: str) -> None:
    """Store a run that has ended; one without truth (nothing was played) has no score."""
    try:
        store.put(fold_log(run.path, contest))
    except LogError as error:
        logger.warning("not in the store: %s", error)


def _print_summary(judge: Judge, board: Leaderboard) -> None:
    if not sys.stdout.isatty():
        Console(width=120).print(render_leaderboard(board.rows()))
    for run in judge.runs:
        logger.info("%s: %s; run log %s", run.team, run.ended, run.path)
    for reason, count in judge.dropped.items():
        logger.warning("%d messages of teams dropped (%s)", count, reason)
    for session in judge.sessions:
        if abs(session.clock.offset_s) > SAME_CLOCK_S:
            logger.info("replay %s: %s at the end", session.name, session.clock)
        for problem, count in session.problems.items():
            logger.warning("replay %s: %s (%d times)", session.name, problem, count)
