"""`bci-judge live`: judges the replays on the network, with a leaderboard in the terminal and on a page."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
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
from bci_stream.leaderboard.terminal import live_tables, render_leaderboard
from bci_stream.leaderboard.web.server import WebBoard
from bci_stream.packet import FloatArray
from bci_stream.wire import names
from bci_stream.wire.transport import SampleInlet, Transport

logger = logging.getLogger(__name__)

DISCOVER_EVERY_S = 0.5


class Screen(Protocol):
    def signal(
        self, track: str, samples: FloatArray, rate: float, leads: tuple[str, ...]
    ) -> None: ...


class SignalView:
    """Shows the signal of each track on the page, from the first of its streams; runs in a thread.

    A stream is opened once. Only one stream of a track stays open (on ecog each team has its own); when
    it ends, another stream of the track takes its place.
    """

    def __init__(self, transport: Transport, contest: str, screen: Screen) -> None:
        self._transport = transport
        self._screen = screen
        self._watch = transport.watch(names.prefix(contest, "signal"))
        self._tracks: dict[str, str] = {}  # by the stream's uid
        self._inlets: dict[str, SampleInlet] = {}  # by the stream's uid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signal-view", daemon=True)

    def __enter__(self) -> "SignalView":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._watch.close()
        for inlet in self._inlets.values():
            inlet.close()

    def _run(self) -> None:
        discovered_at = -DISCOVER_EVERY_S
        while not self._stop.wait(0.05):
            now = self._transport.now()
            if now - discovered_at > DISCOVER_EVERY_S:
                discovered_at = now
                self.discover()
            self.show()

    def discover(self) -> None:
        """Open the streams of tracks that are not shown yet."""
        for found in self._watch.found():
            shown = {self._tracks[uid] for uid in self._inlets}
            if found.uid in self._inlets or self._tracks.get(found.uid) in {*shown, ""}:
                continue
            try:
                inlet = self._transport.sample_inlet(found, 2.0)
            except (LostError, NotFoundError):
                continue  # it ended just after it was discovered
            track = self._tracks[found.uid] = inlet.spec.meta.get("track", "")
            if track and track not in shown:
                self._inlets[found.uid] = inlet
            else:
                inlet.close()

    def show(self) -> None:
        """Hand on what has arrived; close the streams that have ended."""
        for uid, inlet in list(self._inlets.items()):
            try:
                samples, _ = inlet.pull(int(inlet.spec.rate) or 1, 0.0)
            except LostError:
                self._inlets.pop(uid).close()
                continue
            if len(samples):
                leads = tuple(lead.name for lead in inlet.spec.leads[:-1])
                self._screen.signal(self._tracks[uid], samples[:, :-1], inlet.spec.rate, leads)


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
) -> None:
    """Judge until every run is over; with `stay`, until it is stopped."""
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
                logger.info("leaderboard: %s", page.url)
            awaited = _awaited(contest, team_count)
            logger.info("waiting for replays of contest %r, and %s", contest.name, awaited)
            if sys.stdout.isatty():
                shown.enter_context(live_tables(board))
            runs = judge.judge(lambda j: not stay and j.all_over(), wait_s)
            _print_summary(judge, board)
            for run in runs:
                store.put(fold_log(run.path, contest.name))


def _awaited(contest: Contest, team_count: int) -> str:
    """The teams that must be ready before the start."""
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
        may_start=lambda teams: wanted <= set(teams) if wanted else len(teams) >= team_count,
    )


def _print_summary(judge: Judge, board: Leaderboard) -> None:
    if not sys.stdout.isatty():
        Console(width=120).print(render_leaderboard(board.rows()))
    for run in judge.runs:
        logger.info("%s: %s; run log %s", run.team, run.ended, run.path)
    for reason, count in judge.dropped.items():
        logger.warning("%d messages of teams dropped (%s)", count, reason)
    for session in judge.sessions:
        for problem, count in session.problems.items():
            logger.warning("replay %s: %s (%d times)", session.name, problem, count)
