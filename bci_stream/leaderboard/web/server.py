"""The web leaderboard: the page's files, the read-only HTTP API and events, served by one thread."""

import asyncio
import errno
import threading
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from bci_stream.errors import PageError, StoreError
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import to_csv, to_records
from bci_stream.leaderboard.store import open_store
from bci_stream.leaderboard.web.sse import Broadcast, pending_updates, stream_events
from tracks.common.words import LANGUAGES

PERIOD_S: Final = 0.2
KEEP_ALIVE_S: Final = 15.0
START_TIMEOUT_S: Final = 20.0
STATIC: Final = Path(str(files("bci_stream.leaderboard.web"))) / "static"

# The page loads nothing from other hosts and runs no inline script: what a team sends stays text.
SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class WebBoard:
    """Serves `board` on host:port (0: any free port). store: of past runs; empty for none."""

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
        """Start the thread and wait until the page can be opened; PageError if that fails."""
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise PageError(f"the page on {self.url} did not start in {START_TIMEOUT_S:g} s")
        if self._stopping is None or self._failure is not None:
            raise self._failure or PageError(f"the page on {self.url} did not start")

    def stop(self) -> None:
        """Close all pages and free the port; does nothing if it was never started."""
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
            handler_cancellation=True,  # a handler learns in this way that its page was closed
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
        where = f"{self.host}:{self.port}"
        try:
            await web.TCPSite(runner, self.host, self.port, backlog=1024).start()
        except OSError as error:
            why = str(error.strerror or error)
            if error.errno == errno.EADDRINUSE:
                why = (
                    "the port is in use (another judge?); "
                    "choose another one with --port, or --port 0 for any free one"
                )
            raise PageError(f"the page can't be served on {where}: {why}") from error
        self.port = runner.addresses[0][1]

    async def _publish(self, broadcast: Broadcast, stopping: asyncio.Event) -> None:
        """Send one update every period: a thousand events cost the pages one message."""
        sent, quiet_s = self.board.snapshot().id, 0.0
        while not stopping.is_set():
            self.board.tick()
            updates = pending_updates(self.board, sent)
            # Also without updates: slow pages may have room now for what they missed.
            broadcast.send(sent, updates)
            sent = updates[-1].id if updates else sent
            quiet_s = 0.0 if updates else quiet_s + self.period_s
            if quiet_s >= KEEP_ALIVE_S:
                broadcast.keep_alive()
                quiet_s = 0.0
            try:
                await asyncio.wait_for(stopping.wait(), self.period_s)
            except TimeoutError:
                continue


def build_app(board: Leaderboard, broadcast: Broadcast, store: str = "") -> web.Application:
    """All routes; every one is a GET."""
    app = web.Application()
    app.on_response_prepare.append(_add_headers)
    app.router.add_get("/", partial(_file, "index.html"))
    app.router.add_get("/api/v1/openapi.json", partial(_file, "openapi.json"))
    app.router.add_get("/api/v1/words", _words)
    app.router.add_get("/api/v1/contest", partial(_contest, board))
    app.router.add_get("/api/v1/leaderboard", partial(_leaderboard, board))
    app.router.add_get("/api/v1/leaderboard.csv", partial(_leaderboard_csv, board))
    app.router.add_get("/api/v1/teams/{track}/{team}", partial(_team, board))
    app.router.add_get("/api/v1/runs", partial(_runs, store))
    app.router.add_get("/api/v1/events", partial(stream_events, broadcast), allow_head=False)
    app.router.add_static("/static/", STATIC)
    return app


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY)
    response.headers.setdefault("Cache-Control", "no-cache")


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


async def _file(name: str, _: web.Request) -> web.StreamResponse:
    return web.FileResponse(STATIC / name)


async def _words(_: web.Request) -> web.StreamResponse:
    return _json(LANGUAGES)


async def _contest(board: Leaderboard, _: web.Request) -> web.StreamResponse:
    snapshot = board.snapshot().data
    return _json({"contest": snapshot["contest"], "tracks": snapshot["tracks"]})


async def _leaderboard(board: Leaderboard, request: web.Request) -> web.StreamResponse:
    return _json({"rows": to_records(board.rows(request.query.get("track")))})


async def _leaderboard_csv(board: Leaderboard, request: web.Request) -> web.StreamResponse:
    text = to_csv(board.rows(request.query.get("track")))
    return web.Response(text=text, content_type="text/csv")


async def _team(board: Leaderboard, request: web.Request) -> web.StreamResponse:
    track, team = request.match_info["track"], request.match_info["team"]
    detail = board.detail(team, track)
    if detail is None:
        return _json({"error": f"there is no team {team!r} on the track {track!r}"}, status=404)
    return _json(detail)


async def _runs(store: str, request: web.Request) -> web.StreamResponse:
    wanted = request.query.get("contest"), request.query.get("track")
    try:
        # In a thread: a database may be slow, and the pages must not wait for it.
        runs = await asyncio.to_thread(_read_runs, store, *wanted) if store else []
    except StoreError as error:
        return _json({"error": str(error)}, status=503)
    return _json({"runs": runs})


def _read_runs(where: str, contest: str | None, track: str | None) -> list[dict[str, Any]]:
    store = open_store(where)
    try:
        runs = store.runs(contest, track)
    finally:
        store.close()
    return [
        {
            "log": Path(run.log).name,
            "contest": run.contest,
            "row": asdict(run.row),
            "sessions": run.sessions,
        }
        for run in runs
    ]
