"""Events to a page: no update is lost, however slowly it reads, and nothing waits for it."""

import asyncio
from typing import cast

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.published import (
    PublishedBoard,
    PublishedSnapshot,
    PublishedUpdate,
    SnapshotComplete,
)
from bci_stream.leaderboard.web.sse import KEEP_ALIVE, MOST_WAITING_BYTES, Broadcast, PageConnection

ROW = {"team": "a", "track": "mi", "status": "lagging"}


class FakeTransport:
    """A connection; `waiting_bytes` are not read by the other side yet."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.waiting_bytes = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    @property
    def ids(self) -> list[int]:
        lines = [data.split(b"\n")[0] for data in self.written if data.startswith(b"id")]
        return [int(line.rpartition(b"-")[2]) for line in lines]


class OpenPage:
    """A board, and one open page that has its snapshot."""

    def __init__(self) -> None:
        self.board = PublishedBoard()
        self.board.take(PublishedSnapshot(Leaderboard().snapshot().data))
        self.board.take(SnapshotComplete())
        self.broadcast = Broadcast(self.board)
        self.transport = FakeTransport()
        self.page = PageConnection(
            cast("asyncio.WriteTransport", self.transport), "", takes_gzip=False, takes_chunks=False
        )
        self.lag(0)

    async def __aenter__(self) -> "OpenPage":
        self._following = asyncio.create_task(self.broadcast.serve(self.page))
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.broadcast.close()
        await self._following

    def lag(self, seconds: int) -> None:
        self.board.take(PublishedUpdate({"rows": [ROW | {"lag_s": float(seconds)}]}))
        self.board.tick()

    def send(self, seconds: int) -> None:
        """Make one update and send it."""
        before = self.board.snapshot().id
        self.lag(seconds)
        self.broadcast.send(before, self.board.after(before) or ())


def test_a_page_gets_a_snapshot_and_then_every_update() -> None:
    async def steps() -> list[int]:
        async with OpenPage() as opened:
            for seconds in (1, 2, 3):
                opened.send(seconds)
        return opened.transport.ids

    assert asyncio.run(steps()) == [1, 2, 3, 4]


def test_a_page_that_is_up_to_date_gets_the_update_as_it_was_encoded() -> None:
    async def steps() -> bool:
        async with OpenPage() as opened:
            opened.send(1)
            (update,) = opened.board.after(f"{opened.page.cursor.partition('-')[0]}-1") or ()
        return opened.transport.written[-1] is update.encoded

    assert asyncio.run(steps())


def test_a_page_that_missed_an_update_gets_it_with_the_next_one() -> None:
    async def steps() -> list[int]:
        async with OpenPage() as opened:
            opened.lag(1)
            opened.lag(2)
            opened.send(3)
        return opened.transport.ids

    assert asyncio.run(steps()) == [1, 2, 3, 4]


def test_a_page_that_does_not_read_gets_nothing_and_then_all_of_it() -> None:
    async def steps() -> tuple[list[int], list[int]]:
        async with OpenPage() as opened:
            opened.transport.waiting_bytes = MOST_WAITING_BYTES + 1
            for seconds in range(1, 6):
                opened.send(seconds)
            before = opened.transport.ids
            opened.transport.waiting_bytes = 0
            opened.send(6)
        return before, opened.transport.ids

    before, after = asyncio.run(steps())
    assert before == [1]
    assert after == [1, 2, 3, 4, 5, 6, 7]


def test_an_empty_batch_sends_a_page_what_it_missed_and_nothing_else() -> None:
    async def steps() -> list[int]:
        async with OpenPage() as opened:
            opened.lag(1)
            for _ in range(3):
                opened.broadcast.send(opened.board.snapshot().id, ())
        return opened.transport.ids

    assert asyncio.run(steps()) == [1, 2]


def test_a_page_without_updates_gets_a_keep_alive() -> None:
    async def steps() -> bytes:
        async with OpenPage() as opened:
            opened.broadcast.keep_alive()
        return opened.transport.written[-1]

    assert asyncio.run(steps()) == KEEP_ALIVE


def test_a_page_that_left_gets_nothing_more() -> None:
    async def steps() -> list[int]:
        async with OpenPage() as opened:
            other = FakeTransport()
            page = PageConnection(
                cast("asyncio.WriteTransport", other), "", takes_gzip=False, takes_chunks=True
            )
            reading = asyncio.create_task(opened.broadcast.serve(page))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            opened.send(1)
        return [len(other.written), len(opened.transport.written)]

    assert asyncio.run(steps()) == [1, 2]
