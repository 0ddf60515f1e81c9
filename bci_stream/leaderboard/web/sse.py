"""Server-sent events: what the open pages are told, each from where it left off.

One loop writes an update to all pages, straight to their connections: a thousand pages cost a thousand
writes of the same bytes, and no task has to wake up. A page that reads too slowly is passed over while
its connection is full, and goes on from its last message when it has read on.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.updates import GZIP_HEAD, LeaderboardUpdate, deflate

HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
RETRY: Final = b"retry: 1000\n\n"
ALIVE: Final = b"event: alive\ndata: {}\n\n"
MOST_WAITING_BYTES: Final = 1 << 16
"""A page whose connection holds more than this back is told nothing new."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one round: those that follow the one with the id `after`."""

    after: str
    messages: Sequence[LeaderboardUpdate]


class Page:
    """An open page, written to in the form that its browser takes."""

    def __init__(
        self, link: asyncio.WriteTransport, cursor: str, *, takes_gzip: bool, takes_chunks: bool
    ) -> None:
        self.cursor = cursor
        self._link = link
        self._takes_gzip = takes_gzip
        self._takes_chunks = takes_chunks

    def tell(self, messages: Sequence[LeaderboardUpdate]) -> None:
        """As many as its connection takes; the cursor says which one was the last."""
        for message in messages:
            if self._link.get_write_buffer_size() > MOST_WAITING_BYTES:
                return
            self._write(message.squeezed if self._takes_gzip else message.encoded)
            self.cursor = message.id

    def say(self, text: bytes) -> None:
        self._write(deflate(text) if self._takes_gzip else text)

    def _write(self, data: bytes) -> None:
        self._link.write(b"%x\r\n%b\r\n" % (len(data), data) if self._takes_chunks else data)


class Broadcast:
    """All open pages: told together, ended together."""

    def __init__(self, board: Leaderboard) -> None:
        self._board = board
        self._pages: set[Page] = set()
        self._ended = asyncio.Event()

    async def follow(self, page: Page) -> None:
        """Keep the page told until all are ended; cancelled when the page leaves."""
        page.tell(pending(self._board, page.cursor))
        self._pages.add(page)
        try:
            await self._ended.wait()
        finally:
            self._pages.discard(page)

    def ring(self, batch: Batch) -> None:
        """Tell all pages what is new, and those that missed something before it that, too."""
        for page in self._pages:
            up_to_date = page.cursor == batch.after
            page.tell(batch.messages if up_to_date else pending(self._board, page.cursor))

    def reassure(self) -> None:
        """There is no news, but the judge is alive."""
        for page in self._pages:
            page.say(ALIVE)

    def close(self) -> None:
        self._ended.set()


async def stream(request: web.Request, broadcast: Broadcast) -> web.StreamResponse:
    """Answer a page until it leaves: first what it missed, then what happens."""
    response = web.StreamResponse(headers=HEADERS)
    takes_gzip = "gzip" in request.headers.get("Accept-Encoding", "").lower()
    if takes_gzip:
        response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    try:
        await response.write(GZIP_HEAD + deflate(RETRY) if takes_gzip else RETRY)
    except ConnectionError:
        return response  # the page was closed: nothing is owed to it
    assert request.transport is not None, "aiohttp wrote to it just now"
    page = Page(
        request.transport,
        request.headers.get("Last-Event-ID", ""),
        takes_gzip=takes_gzip,
        # aiohttp chunks what it sends to all but HTTP/1.0 clients (nginx speaks it by default).
        takes_chunks=response.headers.get("Transfer-Encoding") == "chunked",
    )
    await broadcast.follow(page)
    return response


def pending(board: Leaderboard, cursor: str) -> Sequence[LeaderboardUpdate]:
    """The updates after `cursor`, or a snapshot where the board can't bridge the gap."""
    updates = board.after(cursor)
    return [board.snapshot()] if updates is None else updates
