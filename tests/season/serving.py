"""A season's server in a thread, with quick units, and its contest."""

import atexit
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.keys import read_team_file
from bci_stream.page_server import listen
from bci_stream.season.client import SeasonClient
from bci_stream.season.log_pool import LogPool
from bci_stream.season.serve_command import Season
from bci_stream.season.storage.store import SeasonStore, open_season_store
from bci_stream.season.uploads import UploadLimits
from scripts.season_rig import ThreadEngine

WAIT_S = 60.0
SMALL = UploadLimits(bytes=100_000, spare_bytes=0, an_hour=100)


def make_contest(folder: Path, phases: str = "", teams: str = '"alice", "bob"') -> Contest:
    folder.mkdir(parents=True, exist_ok=True)
    text = f'name = "cup"\nteams = [{teams}]\nresults = "sealed"\n[tracks.erp]\n{phases}'
    (folder / "contest.toml").write_text(text)
    contest = load_contest(folder)
    for team in contest.teams:
        contest.keys.team_file(team, contest.name, contest.results)
    return contest


class Served:
    """A running server. url, contest, engine; `client` for a team's requests."""

    def __init__(
        self, contest: Contest, url: str, engine: ThreadEngine, store: str, stop: threading.Event
    ) -> None:
        self.contest = contest
        self.url = url
        self.engine = engine
        self._store = store
        self.stop = stop

    def client(self, team: str) -> SeasonClient:
        return SeasonClient(self.url, read_team_file(self.team_file(team)))

    def team_file(self, team: str) -> Path:
        return self.contest.folder / "keys" / f"{team}.bci"

    @contextmanager
    def store(self) -> Iterator[SeasonStore]:
        with closing(open_season_store(self._store)) as opened:
            yield opened

    def until(self, client: SeasonClient, number: int, *stages: str) -> dict[str, Any]:
        """The submission, once it is at one of these stages."""
        return wait_for(
            lambda: view if (view := client.submission(number))["stage"] in stages else None
        )


def wait_for(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if value := found():
            return value
        threading.Event().wait(0.02)
    raise AssertionError("it did not happen in time")


@cache
def shared_logs() -> LogPool:
    """One pool for all servers of a test process: its processes take a second to start."""
    logs = LogPool(1)
    atexit.register(logs.close)
    return logs


@contextmanager
def serving(
    contest: Contest,
    engine: ThreadEngine | None = None,
    store: str = "",
    limits: UploadLimits = SMALL,
    units_a_team: int = 1,
    tls: ssl.SSLContext | None = None,
    logs: LogPool | None = None,
) -> Iterator[Served]:
    engine = engine or ThreadEngine()
    store = store or str(contest.folder / "season.sqlite")
    stop = threading.Event()
    with closing(listen("127.0.0.1", 0)) as listening:
        season = Season(
            contest, engine=engine, logs=logs or shared_logs(), store=store, limits=limits,
            units_a_team=units_a_team, secure=tls is not None,
        )  # fmt: skip
        thread = threading.Thread(target=season.run, args=(listening, tls, stop))
        thread.start()
        try:
            url = f"http{'s' if tls else ''}://127.0.0.1:{listening.getsockname()[1]}"
            yield Served(contest, url, engine, store, stop)
        finally:
            stop.set()
            thread.join()
