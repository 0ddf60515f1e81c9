"""The web board serves the page and the API from a thread of its own, beside the judge."""

import asyncio
import errno
import threading

from aiohttp import web

from bci_stream.errors import PageError
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.api import build_app
from bci_stream.leaderboard.web.sse import Batch, Broadcast, pending

PERIOD_S = 0.2
ALIVE_S = 15.0
START_TIMEOUT_S = 20.0


class WebBoard:
    """Serve `board` on host:port (0: any free port); start() returns once it can be opened."""

    def __init__(
        self,
        board: Leaderboard,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        store: str = "",
        period_s: float = PERIOD_S,
    ) -> None:
        self.board = board
        self.host = host
        self.port = port
        self.store = store
        self.period_s = period_s
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="web-board", daemon=True)

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise PageError(f"the page on {self.url} did not come up in {START_TIMEOUT_S:g} s")
        if self._stopping is None or self._failure is not None:
            raise self._failure or PageError(f"the page on {self.url} did not come up")

    def stop(self) -> None:
        """End all open pages and free the port; nothing where it was never started."""
        if self._thread.ident is None:
            return
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_TIMEOUT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except (OSError, PageError) as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        broadcast = Broadcast(self.board)
        runner = web.AppRunner(
            build_app(self.board, broadcast, self.store),
            access_log=None,
            shutdown_timeout=1,
            handler_cancellation=True,  # this is how a page that was closed is heard of
        )
        await runner.setup()
        try:
            await self._listen(runner)
            self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
            self._ready.set()
            await self._publish(broadcast, self._stopping)
        finally:
            broadcast.close()
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self.host, self.port, backlog=1024).start()
        except OSError as error:
            raise PageError(self._why_not(error)) from error
        self.port = runner.addresses[0][1]

    def _why_not(self, error: OSError) -> str:
        where = f"{self.host}:{self.port}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"the page can't be served on {where}: the port is in use (another judge?); "
                "choose another one with --port, or --port 0 for any free one"
            )
        return f"the page can't be served on {where}: {error.strerror or error}"

    async def _publish(self, broadcast: Broadcast, stopping: asyncio.Event) -> None:
        """Gather what changed every period: a thousand events cost the pages one message."""
        told, quiet_s = self.board.snapshot().id, 0.0
        while not stopping.is_set():
            self.board.tick()
            news = pending(self.board, told)
            # Rung without news, too: pages that read slowly may have room for what they missed.
            broadcast.ring(Batch(told, news))
            told = news[-1].id if news else told
            quiet_s = 0.0 if news else quiet_s + self.period_s
            if quiet_s >= ALIVE_S:
                broadcast.reassure()
                quiet_s = 0.0
            try:
                await asyncio.wait_for(stopping.wait(), self.period_s)
            except TimeoutError:
                continue
