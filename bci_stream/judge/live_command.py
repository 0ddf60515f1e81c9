"""`bci-judge live`: judge what is on the wire, and show it in the terminal and on a page."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from filelock import FileLock, Timeout
from rich.console import Console

from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError, LostError, NotFoundError
from bci_stream.judge.judge import Judge
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.fold import fold_log
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.store import open_store
from bci_stream.leaderboard.terminal import TerminalBoard, render_leaderboard
from bci_stream.leaderboard.web.server import WebBoard
from bci_stream.packet import FloatArray
from bci_stream.wire import names
from bci_stream.wire.transport import SampleInlet, Transport

LOOK_EVERY_S = 0.5


class Screen(Protocol):
    def signal(
        self, track: str, samples: FloatArray, rate: float, leads: tuple[str, ...]
    ) -> None: ...


class SignalView:
    """Follows the signal streams of a contest, one a track."""

    def __init__(self, transport: Transport, contest: str, screen: Screen) -> None:
        self._transport = transport
        self._screen = screen
        self._watch = transport.watch(names.prefix(contest, "signal"))
        self._inlets: dict[str, SampleInlet] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signal-view", daemon=True)

    def __enter__(self) -> "SignalView":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._watch.close()

    def _run(self) -> None:
        looked = -LOOK_EVERY_S
        while not self._stop.wait(0.05):
            now = self._transport.now()
            if now - looked > LOOK_EVERY_S:
                looked = now
                self._look()
            for track, inlet in list(self._inlets.items()):
                self._show(track, inlet)

    def _look(self) -> None:
        for found in self._watch.found():
            try:
                inlet = self._transport.sample_inlet(found, 2.0)
            except (LostError, NotFoundError):
                continue  # it ended as it was seen
            track = inlet.spec.meta.get("track", "")
            if track and track not in self._inlets:
                self._inlets[track] = inlet
            else:
                inlet.close()

    def _show(self, track: str, inlet: SampleInlet) -> None:
        try:
            samples, _ = inlet.pull(int(inlet.spec.rate) or 1, 0.0)
        except LostError:
            del self._inlets[track]
            return
        if len(samples):
            leads = tuple(lead.name for lead in inlet.spec.leads[:-1])
            self._screen.signal(track, samples[:, :-1], inlet.spec.rate, leads)


@contextmanager
def only_judge(contest: Contest) -> Iterator[None]:
    """Lock the contest; raises ContestError, with the owner's pid, if another judge holds it."""
    contest.folder.mkdir(parents=True, exist_ok=True)
    path = contest.folder / f"judge-{contest.name}.lock"
    pid_file = path.with_suffix(".pid")
    try:
        lock = FileLock(path).acquire(timeout=0)
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
        board = Leaderboard(
            contest.name, Qualifying(contest.qualify.top, contest.qualify.least_score)
        )
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
    transport: Transport,
    contest: Contest,
    board: Leaderboard,
    team_count: int,
    stop: threading.Event,
) -> Judge:
    wanted = set(contest.teams)
    return Judge(
        transport,
        contest,
        board,
        stop=stop,
        expected=lambda teams: wanted <= set(teams) if wanted else len(teams) >= team_count,
    )


def _last_word(judge: Judge, board: Leaderboard, say: Callable[[str], None]) -> None:
    if not sys.stdout.isatty():
        Console(width=120).print(render_leaderboard(board.rows()))
    for run in judge.runs():
        say(f"{run.team}: {run.ended}; run log {run.path}")
    for hearing in judge.hearings:
        for why, count in hearing.dropped.items():
            say(f"replay {hearing.name}: {count} messages dropped ({why})")
        for complaint, count in hearing.complaints.items():
            say(f"replay {hearing.name}: {complaint} ({count} times)")
