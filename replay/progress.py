"""One line in the terminal that tells how far a replay is; nothing where there is no terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from replay.player import Player

EVERY_S = 0.5


class Playing(Protocol):
    player: Player | None


@contextmanager
def progress_line(service: Playing) -> Iterator[None]:
    if not sys.stderr.isatty():
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
                line.update(describe(service.player))


def describe(player: Player) -> str:
    """subject S01: 12 of 40 % played, 2 teams, 0.1 ms late."""
    at = player.progress
    share = f"{at.played / at.total:.0%} played" if at.total else f"{at.played} samples played"
    teams = f", teams: {', '.join(at.teams)}" if at.teams else ""
    again = f", round {at.round + 1}" if at.round else ""
    return f"{at.state} {at.subject}: {share}{again}{teams}, last packet {at.late_s * 1000:.1f} ms late"
