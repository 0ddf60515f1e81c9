"""The page's server, in a process of its own: the page's files, the read-only HTTP API and events."""

import asyncio
import socket
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from bci_stream.errors import PageError, RuleError, StoreError
from bci_stream.leaderboard.ranking import to_csv, to_records
from bci_stream.leaderboard.store import open_store
from bci_stream.leaderboard.web.connections import EVENTS_PATH, Acceptor, timed_request
from bci_stream.leaderboard.web.console import Console
from bci_stream.leaderboard.web.metrics import Metrics
from bci_stream.leaderboard.web.published import (
    LENGTH,
    MOST_FEED_BYTES,
    PageSettings,
    PublishedBoard,
    PublishedUpdate,
    SnapshotComplete,
    decode_message,
)
from bci_stream.leaderboard.web.sse import Broadcast, pending_updates, stream_events
from bci_stream.page_server import add_headers
from tracks.common.words import LANGUAGES
from tracks.registry import TRACKS

KEEP_ALIVE_S: Final = 15.0
FEED_BUFFER: Final = 1 << 20
STATIC: Final = Path(str(files("bci_stream.leaderboard.web"))) / "static"


async def serve(
    board: PublishedBoard, feed: socket.socket, listening: socket.socket, settings: PageSettings
) -> None:
    """Serve what arrives on the feed, until the feed ends."""
    limits = settings.limits
    broadcast, arrived = Broadcast(board), asyncio.Event()
    runner = web.AppRunner(
        build_app(board, broadcast, settings.store, settings.console, settings.metrics),
        access_log=None,
        shutdown_timeout=1,
        handler_cancellation=True,  # a handler learns in this way that its page was closed
        keepalive_timeout=limits.idle_s,
        lingering_time=0,
    )
    await runner.setup()
    assert runner.server is not None, "it was set up just now"
    acceptor = Acceptor(listening, runner.server, limits)
    reading = asyncio.create_task(_read_feed(feed, board, arrived))
    try:
        while not board.is_complete and not reading.done():
            await _next_period(arrived, reading, settings.period_s)
        if not reading.done():
            acceptor.start()
            await _publish(board, broadcast, arrived, reading, settings.period_s)
            acceptor.close()
        await reading
    finally:
        broadcast.close()
        await runner.cleanup()


async def _read_feed(feed: socket.socket, board: PublishedBoard, arrived: asyncio.Event) -> None:
    """Fold the feed into the board until the judge's process closes it, or ends."""
    reader, writer = await asyncio.open_unix_connection(sock=feed, limit=FEED_BUFFER)
    try:
        while True:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if length > MOST_FEED_BYTES:
                raise PageError(f"a feed message of {length} bytes; at most {MOST_FEED_BYTES}")
            message = decode_message(await reader.readexactly(length))
            board.take(message)
            if isinstance(message, PublishedUpdate | SnapshotComplete):
                arrived.set()  # there is something for all pages; the details of a team are not
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _publish(
    board: PublishedBoard,
    broadcast: Broadcast,
    arrived: asyncio.Event,
    reading: "asyncio.Task[None]",
    period_s: float,
) -> None:
    """Send what arrives to all pages at once, and the signal every period."""
    sent, quiet_s = board.snapshot().id, 0.0
    while not reading.done():
        board.tick()
        updates = pending_updates(board, sent)
        # Also without updates: slow pages may have room now for what they missed.
        broadcast.send(sent, updates)
        sent = updates[-1].id if updates else sent
        quiet_s = 0.0 if updates else quiet_s + period_s
        if quiet_s >= KEEP_ALIVE_S:
            broadcast.keep_alive()
            quiet_s = 0.0
        await _next_period(arrived, reading, period_s)


async def _next_period(
    arrived: asyncio.Event, reading: "asyncio.Task[None]", period_s: float
) -> None:
    """Wait until something arrives, the feed ends, or a period is over."""
    waiting = asyncio.create_task(arrived.wait())
    await asyncio.wait((waiting, reading), timeout=period_s, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    arrived.clear()


def build_app(
    board: PublishedBoard,
    broadcast: Broadcast,
    store: str = "",
    console: str = "",
    metrics: str = "",
) -> web.Application:
    """All routes; all but the console's are GETs. console, metrics: the judge's socket, or empty."""
    app = web.Application(middlewares=[timed_request])
    app.on_response_prepare.append(add_headers)
    app.router.add_get("/", partial(_file, "index.html"))
    app.router.add_get("/api/v1/openapi.json", partial(_file, "openapi.json"))
    app.router.add_get("/api/v1/words", partial(_words, board))
    app.router.add_get("/api/v1/contest", partial(_contest, board))
    app.router.add_get("/api/v1/leaderboard", partial(_leaderboard, board))
    app.router.add_get("/api/v1/leaderboard.csv", partial(_leaderboard_csv, board))
    app.router.add_get("/api/v1/teams/{track}/{team}", partial(_team, board))
    app.router.add_get("/api/v1/runs", partial(_runs, store))
    app.router.add_get(EVENTS_PATH, partial(stream_events, broadcast), allow_head=False)
    app.router.add_static("/static/", STATIC)
    if console:
        Console(console, STATIC / "console.html", board.signals).add_routes(app)
    if metrics:
        app.router.add_get("/metrics", Metrics(metrics, board).show)
    return app


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


async def _file(name: str, _: web.Request) -> web.StreamResponse:
    return web.FileResponse(STATIC / name)


async def _words(board: PublishedBoard, _: web.Request) -> web.StreamResponse:
    for track in board.contest()["tracks"]:
        with suppress(KeyError, RuleError):
            TRACKS[track]  # its own reasons have words once it is loaded
    return _json(LANGUAGES)


async def _contest(board: PublishedBoard, _: web.Request) -> web.StreamResponse:
    return _json(board.contest())


async def _leaderboard(board: PublishedBoard, request: web.Request) -> web.StreamResponse:
    return _json({"rows": to_records(board.rows(request.query.get("track")))})


async def _leaderboard_csv(board: PublishedBoard, request: web.Request) -> web.StreamResponse:
    text = to_csv(board.rows(request.query.get("track")))
    return web.Response(text=text, content_type="text/csv")


async def _team(board: PublishedBoard, request: web.Request) -> web.StreamResponse:
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
