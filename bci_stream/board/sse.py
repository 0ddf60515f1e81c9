"""A stream of server-sent events: what one open page is told, from where it left off."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from bci_stream.board.feed import Board
from bci_stream.board.message import GZIP_HEAD, Message, squeeze

HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
RETRY_MS = 1000
ALIVE = b"event: alive\ndata: {}\n\n"


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one round: those that follow the one with the id `after`."""

    after: str
    messages: Sequence[Message]


class Broadcast:
    """Wakes every open page when there is something new, and ends them all at once."""

    def __init__(self) -> None:
        self._bell = asyncio.Event()
        self.batch = Batch("", ())
        self.closed = False

    def ring(self, batch: Batch) -> None:
        self.batch = batch
        # Waiters are woken by set() itself; the flag is dropped at once for the next round.
        self._bell.set()
        self._bell.clear()

    def close(self) -> None:
        self.closed = True
        self.ring(Batch("", ()))

    async def next(self, last: Batch) -> Batch:
        """The batch after `last`; at once where one came while the page was being written to."""
        if self.batch is last and not self.closed:
            await self._bell.wait()
        return self.batch


class Page:
    """An open page, written to in the form that its browser takes."""

    def __init__(self, response: web.StreamResponse, *, takes_gzip: bool) -> None:
        self._response = response
        self._takes_gzip = takes_gzip

    async def tell(self, message: Message) -> None:
        await self._response.write(message.squeezed if self._takes_gzip else message.encoded)

    async def say(self, text: bytes) -> None:
        await self._response.write(squeeze(text) if self._takes_gzip else text)


async def stream(request: web.Request, board: Board, broadcast: Broadcast) -> web.StreamResponse:
    """Answer a page until it leaves: first what it missed, then what happens."""
    response = web.StreamResponse(headers=HEADERS)
    takes_gzip = "gzip" in request.headers.get("Accept-Encoding", "").lower()
    if takes_gzip:
        response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    page = Page(response, takes_gzip=takes_gzip)
    try:
        if takes_gzip:
            await response.write(GZIP_HEAD)
        await page.say(f"retry: {RETRY_MS}\n\n".encode())
        await _follow(page, request.headers.get("Last-Event-ID", ""), board, broadcast)
    except ConnectionError:
        pass  # the page was closed: nothing is owed to it
    return response


async def _follow(page: Page, cursor: str, board: Board, broadcast: Broadcast) -> None:
    batch = broadcast.batch
    messages: Sequence[Message] = pending(board, cursor)
    while not broadcast.closed:
        for message in messages:
            await page.tell(message)
            cursor = message.id
        batch = await broadcast.next(batch)
        messages = batch.messages if batch.after == cursor else pending(board, cursor)
        if not messages and not broadcast.closed:
            await page.say(ALIVE)


def pending(board: Board, cursor: str) -> Sequence[Message]:
    """The updates after `cursor`, or a snapshot where the board can't bridge the gap."""
    updates = board.after(cursor)
    return [board.snapshot()] if updates is None else updates
