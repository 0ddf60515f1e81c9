"""`bci-judge serve`: a season's page, API, queue and workers on this machine, from the contest file."""

import asyncio
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError
from bci_stream.page_server import listen
from bci_stream.season.downloads import offered_files
from bci_stream.season.log_pool import LogPool
from bci_stream.season.organiser import Reruns
from bci_stream.season.service import SeasonService
from bci_stream.season.standing import phases_of
from bci_stream.season.storage.store import open_season_store
from bci_stream.season.units.engines import Engine, parse_engine
from bci_stream.season.uploads import MEGABYTE, UploadLimits, Uploads
from bci_stream.season.web.server import SeasonServer
from bci_stream.season.workers import Workers

logger = logging.getLogger(__name__)

STORE: Final = "season.sqlite"
UPLOADS: Final = "uploads"
WORK: Final = "season-work"


def serve_season(
    contest: Contest,
    *,
    host: str,
    port: int,
    engine: str,
    store: str,
    upload_mb: int,
    units_a_team: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    stop: threading.Event,
) -> None:
    """Serve until `stop` is set. Raises ContestError, StoreError or PageError."""
    if not contest.tracks:
        raise ContestError("the contest file has no track: add [tracks.NAME] with its recordings")
    tls = tls_context(tls_cert, tls_key)
    with (
        only_server(contest),
        closing(listen(host, port)) as listening,
        closing(parse_engine(engine)) as chosen,
        closing(LogPool(log_processes(chosen))) as logs,
    ):
        scheme = "http" if tls is None else "https"
        address = f"{scheme}://{host}:{listening.getsockname()[1]}/"
        logger.info(
            "season of contest %s: %s (units at a time: %d)", contest.name, address, chosen.slots
        )
        season = Season(
            contest,
            engine=chosen,
            logs=logs,
            store=store or str(contest.folder / STORE),
            limits=UploadLimits(bytes=upload_mb * MEGABYTE),
            units_a_team=units_a_team,
            secure=tls is not None,
        )
        season.run(listening, tls, stop)


def log_processes(engine: Engine) -> int:
    """How many processes may read run logs: no more than units or processors."""
    return max(1, min(engine.slots, os.cpu_count() or 1))


class Season:
    """The parts of a season's server, and how they start and end."""

    def __init__(
        self,
        contest: Contest,
        *,
        engine: Engine,
        logs: LogPool,
        store: str,
        limits: UploadLimits,
        units_a_team: int = 1,
        secure: bool = False,
    ) -> None:
        self._open = partial(open_season_store, store)
        self.uploads = Uploads(contest.folder / UPLOADS, limits)
        work = contest.folder / WORK
        self.workers = Workers(
            contest,
            phases_of(contest),
            engine,
            self._open,
            logs,
            packages=self.uploads.path,
            work=work,
            most_a_team=units_a_team,
        )
        self._reruns = Reruns(contest, self._open, engine, logs)
        self._server = SeasonServer(
            lambda: SeasonService(contest, self._open(), self.uploads, work),
            self.uploads,
            self.workers.wake,
            secure=secure,
            offered=offered_files(contest),
            machines=engine.machines,
            rerun=self._reruns.start,
        )

    def run(
        self, listening: socket.socket, tls: ssl.SSLContext | None, stop: threading.Event
    ) -> None:
        """Remove what a killed server left, then serve until `stop` is set."""
        try:
            store = self._open()
            self.uploads.clean(store.uploads())
            store.close()
            self.workers.start()
            asyncio.run(self._serve(listening, tls, stop))
        finally:
            self.workers.stop()
            self._reruns.close()
            self._server.close()

    async def _serve(
        self, listening: socket.socket, tls: ssl.SSLContext | None, stop: threading.Event
    ) -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()

        def wait() -> None:
            stop.wait()
            loop.call_soon_threadsafe(stopped.set)

        waiting = threading.Thread(target=wait, name="stop", daemon=True)
        waiting.start()
        await self._server.serve(listening, tls, stopped)


@contextmanager
def only_server(contest: Contest) -> Iterator[None]:
    """Lock the season; raises ContestError if another server has it."""
    contest.folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(contest.folder / "season.lock").acquire(timeout=0)
    except Timeout as error:
        raise ContestError(
            f"contest {contest.name!r} has a server already: stop that one first"
        ) from error
    with lock:
        yield


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """None without a certificate. Raises ContestError."""
    if cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ContestError(
            f"--tls-cert {cert}: not a certificate with its key ({error})"
        ) from error
    return context
