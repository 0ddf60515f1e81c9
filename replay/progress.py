"""One line in the terminal that tells how far a replay is; nothing where there is no terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from replay.player import Player
from replay.telling import Progress

EVERY_S = 0.5


class Playing(Protocol):
    player: Player | None


@contextmanager
def progress_line(service: Playing) -> Iterator[None]:
    if sys.stderr is None or not sys.stderr.isatty():  # None: it was closed (`2>&-`)
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(service, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(service: Playing, over: threading.Event) -> None:
    from rich.console import Console
    from rich.status import Status

    with Status("opening and checking the sources", console=Console(stderr=True)) as line:
        while not over.wait(EVERY_S):
            if service.player is not None:
                line.update(describe(service.player.progress))


def describe(at: Progress) -> str:
    """playing S01: 12% played, teams: a, b, last packet 0.1 ms late, at worst 0.4 ms."""
    share = f"{at.played / at.total:.0%} played" if at.total else f"{at.played} samples played"
    teams = f", teams: {', '.join(at.teams)}" if at.teams else ""
    again = f", round {at.round + 1}" if at.round else ""
    return f"{at.state} {at.subject}: {share}{again}{teams}{_lateness(at)}"


def _lateness(at: Progress) -> str:
    if not at.worst_late_s:
        return ""  # in lockstep nothing is late
    last_ms, worst_ms = 1000 * max(at.late_s, 0.0), 1000 * at.worst_late_s
    return f", last packet {last_ms:.1f} ms late, at worst {worst_ms:.1f} ms"
