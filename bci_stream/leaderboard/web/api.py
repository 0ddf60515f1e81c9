"""The read-only HTTP API, and the page's files."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from bci_stream.errors import StoreError
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import to_csv, to_records
from bci_stream.leaderboard.store import open_store
from bci_stream.leaderboard.web.sse import Broadcast, stream
from tracks.common.words import LANGUAGES

STATIC = Path(str(files("bci_stream.leaderboard.web"))) / "static"

# The page loads nothing from elsewhere and runs no inline script: what a team sends stays text.
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(board: Leaderboard, broadcast: Broadcast, store: str = "") -> web.Application:
    """The routes; every one is a GET. store: where past runs are kept, empty for nowhere."""
    app = web.Application()
    app.on_response_prepare.append(_secure)
    app.router.add_get("/", _page)
    app.router.add_get("/api/v1/openapi.json", _openapi)
    app.router.add_get("/api/v1/words", _words)
    app.router.add_get("/api/v1/contest", partial(_contest, board))
    app.router.add_get("/api/v1/leaderboard", partial(_leaderboard, board))
    app.router.add_get("/api/v1/leaderboard.csv", partial(_leaderboard_csv, board))
    app.router.add_get("/api/v1/teams/{track}/{team}", partial(_team, board))
    app.router.add_get("/api/v1/runs", partial(_runs, store))
    app.router.add_get("/api/v1/events", partial(_events, broadcast), allow_head=False)
    app.router.add_static("/static/", STATIC)
    return app


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY)
    response.headers.setdefault("Cache-Control", "no-cache")


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


async def _page(_: web.Request) -> web.StreamResponse:
    return web.FileResponse(STATIC / "index.html")


async def _openapi(_: web.Request) -> web.StreamResponse:
    return web.FileResponse(STATIC / "openapi.json")


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
        # A database may make its reader wait, and the pages must not.
        runs = await asyncio.to_thread(_read_runs, store, *wanted) if store else []
    except StoreError as error:
        return _json({"error": str(error)}, status=503)
    return _json({"runs": runs})


def _read_runs(store: str, contest: str | None, track: str | None) -> list[dict[str, Any]]:
    opened = open_store(store)
    try:
        return [
            {
                "log": Path(run.log).name,
                "contest": run.contest,
                "row": asdict(run.row),
                "sessions": run.sessions,
            }
            for run in opened.runs(contest, track)
        ]
    finally:
        opened.close()


async def _events(broadcast: Broadcast, request: web.Request) -> web.StreamResponse:
    return await stream(request, broadcast)
