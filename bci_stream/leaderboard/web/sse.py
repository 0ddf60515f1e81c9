"""Server-sent events: sends the leaderboard's updates to all open pages.

One loop writes an update to every page's connection: a thousand pages cost a thousand writes of the
same bytes, and no task wakes up. A page that reads too slowly gets nothing while its connection is
full, and continues after its last update when it has read on; `connections` drops it if it does not.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from bci_stream.leaderboard.updates import GZIP_HEAD, LeaderboardUpdate, deflate
from bci_stream.leaderboard.web.published import PublishedBoard

HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
RETRY: Final = b"retry: 1000\n\n"
KEEP_ALIVE: Final = b"event: alive\ndata: {}\n\n"
MOST_WAITING_BYTES: Final = 1 << 16
"""A page with more unsent bytes than this gets no new updates."""


class PageConnection:
    """The connection of an open page. cursor: id of the last update that was written to it."""

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        cursor: str,
        *,
        takes_gzip: bool,
        takes_chunks: bool,
    ) -> None:
        self.cursor = cursor
        self._transport = transport
        self._takes_gzip = takes_gzip
        self._takes_chunks = takes_chunks

    def send(self, updates: Sequence[LeaderboardUpdate]) -> None:
        """Write as many updates as the connection has room for."""
        for update in updates:
            if self._transport.get_write_buffer_size() > MOST_WAITING_BYTES:
                return
            self._write(update.deflated if self._takes_gzip else update.encoded)
            self.cursor = update.id

    def send_keep_alive(self) -> None:
        self._write(deflate(KEEP_ALIVE) if self._takes_gzip else KEEP_ALIVE)

    def _write(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._takes_chunks else data)


class Broadcast:
    """All open pages."""

    def __init__(self, board: PublishedBoard) -> None:
        self._board = board
        self._pages: set[PageConnection] = set()
        self._closed = asyncio.Event()

    async def serve(self, page: PageConnection) -> None:
        """Send the page what it missed, then all updates until `close`; cancelled if the page leaves."""
        page.send(pending_updates(self._board, page.cursor))
        self._pages.add(page)
        try:
            await self._closed.wait()
        finally:
            self._pages.discard(page)

    def send(self, after: str, updates: Sequence[LeaderboardUpdate]) -> None:
        """Send the updates that follow the id `after` to all pages, and to slow pages what they missed."""
        for page in self._pages:
            up_to_date = page.cursor == after
            page.send(updates if up_to_date else pending_updates(self._board, page.cursor))

    def keep_alive(self) -> None:
        """Tell all pages that the judge is alive although nothing changed."""
        for page in self._pages:
            page.send_keep_alive()

    def close(self) -> None:
        self._closed.set()


async def stream_events(broadcast: Broadcast, request: web.Request) -> web.StreamResponse:
    """Answer a page with events until it leaves or the server stops."""
    response = web.StreamResponse(headers=HEADERS)
    takes_gzip = "gzip" in request.headers.get("Accept-Encoding", "").lower()
    if takes_gzip:
        response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    try:
        await response.write(GZIP_HEAD + deflate(RETRY) if takes_gzip else RETRY)
    except ConnectionError:
        return response  # the page was closed
    assert request.transport is not None, "aiohttp wrote to it just now"
    page = PageConnection(
        request.transport,
        request.headers.get("Last-Event-ID", ""),
        takes_gzip=takes_gzip,
        # aiohttp sends chunks to all but HTTP/1.0 clients (nginx uses HTTP/1.0 by default).
        takes_chunks=response.headers.get("Transfer-Encoding") == "chunked",
    )
    await broadcast.serve(page)
    return response


def pending_updates(board: PublishedBoard, cursor: str) -> Sequence[LeaderboardUpdate]:
    """The updates after `cursor`, or a snapshot if the leaderboard has not kept them all."""
    updates = board.after(cursor)
    return [board.snapshot()] if updates is None else updates
