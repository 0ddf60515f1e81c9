"""A stream of server-sent events: what one open page is told, from where it left off."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from bci_stream.board.feed import Board
from bci_stream.board.message import Message

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


async def stream(request: web.Request, board: Board, broadcast: Broadcast) -> web.StreamResponse:
    """Answer a page until it leaves: first what it missed, then what happens."""
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(request)
    try:
        await response.write(f"retry: {RETRY_MS}\n\n".encode())
        await _follow(response, request.headers.get("Last-Event-ID", ""), board, broadcast)
    except ConnectionError:
        pass  # the page was closed: nothing is owed to it
    return response


async def _follow(
    response: web.StreamResponse, cursor: str, board: Board, broadcast: Broadcast
) -> None:
    batch = broadcast.batch
    messages: Sequence[Message] = pending(board, cursor)
    while not broadcast.closed:
        for message in messages:
            await response.write(message.encoded)
            cursor = message.id
        batch = await broadcast.next(batch)
        messages = batch.messages if batch.after == cursor else pending(board, cursor)
        if not messages and not broadcast.closed:
            await response.write(ALIVE)


def pending(board: Board, cursor: str) -> Sequence[Message]:
    """The updates after `cursor`, or a snapshot where the board can't bridge the gap."""
    updates = board.after(cursor)
    return [board.snapshot()] if updates is None else updates
