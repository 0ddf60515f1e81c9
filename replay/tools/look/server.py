"""The viewer's page: its files, and one WebSocket a page on which frames are sent."""

import asyncio
import contextlib
import json
import socket
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from aiohttp import WSMsgType, web

from bci_stream.page_server import add_headers
from replay.tools.look.live import LiveView
from replay.tools.look.signal import FilterSettings

FRAME_S: Final = 0.1
SEND_S: Final = 2.0
MOST_PAGES: Final = 20
STATIC: Final = Path(str(files("replay.tools.look"))) / "static"
FILES: Final = {"/": "look.html", "/look.js": "look.js", "/look.css": "look.css"}


class Pages:
    """The open pages. Each gets every frame; one that does not read is closed."""

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._open: set[web.WebSocketResponse] = set()

    async def connect(self, request: web.Request) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("//")[2] != request.host:
            raise web.HTTPForbidden(text="a page of another host may not read the signal")
        if len(self._open) >= MOST_PAGES:
            raise web.HTTPServiceUnavailable(text=f"{MOST_PAGES} pages are open: close one")
        page = web.WebSocketResponse(heartbeat=20, max_msg_size=4096, compress=False)
        await page.prepare(request)
        await page.send_str(json.dumps(self._view.describe()))
        self._open.add(page)
        try:
            async for message in page:
                if message.type == WSMsgType.TEXT:
                    await self._take(message.data)
        finally:
            self._open.discard(page)
        return page

    async def _take(self, text: str) -> None:
        """New filters, for all pages; anything else is ignored."""
        with contextlib.suppress(ValueError, TypeError, KeyError):
            given = json.loads(text)["filter"]
            numbers = {key: float(given[key]) for key in ("highpass", "lowpass", "notch")}
            if all(0 <= number < 1e5 for number in numbers.values()):
                self._view.change_filter(FilterSettings(**numbers))
                await self._send(json.dumps(self._view.describe()))

    async def send_frames(self, stop: threading.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(FRAME_S)
            frame = self._view.frame(judged=bool(self._open))
            if self._open:
                await self._send(json.dumps(frame))

    async def _send(self, text: str) -> None:
        await asyncio.gather(*(self._send_to(page, text) for page in list(self._open)))

    async def _send_to(self, page: web.WebSocketResponse, text: str) -> None:
        try:
            await asyncio.wait_for(page.send_str(text), SEND_S)
        except (TimeoutError, ConnectionError, RuntimeError):
            self._open.discard(page)
            with contextlib.suppress(Exception):
                await asyncio.wait_for(page.close(), SEND_S)

    async def close(self) -> None:
        for page in list(self._open):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(page.close(), SEND_S)


async def _file(request: web.Request) -> web.StreamResponse:
    return web.FileResponse(STATIC / FILES[request.path])


async def serve(view: LiveView, listening: socket.socket, stop: threading.Event) -> None:
    """Serve until `stop` is set."""
    app, pages = web.Application(), Pages(view)
    app.on_response_prepare.append(add_headers)
    routes: list[Any] = [web.get(path, _file) for path in FILES]
    app.add_routes([*routes, web.get("/frames", pages.connect)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        await pages.send_frames(stop)
    finally:
        await pages.close()
        await runner.cleanup()
