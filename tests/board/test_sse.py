"""Events to a page: no update is lost, however slowly the page reads; nothing waits for it."""

import asyncio
from typing import cast

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.sse import ALIVE, MOST_WAITING_BYTES, Batch, Broadcast, Page


class FakeLink:
    """A connection whose far side reads when it is told to."""

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


class Hall:
    """A board, and one open page that has its snapshot."""

    def __init__(self) -> None:
        self.board = Leaderboard()
        self.broadcast = Broadcast(self.board)
        self.link = FakeLink()
        self.page = Page(
            cast("asyncio.WriteTransport", self.link), "", takes_gzip=False, takes_chunks=False
        )
        self.lag(0)

    async def __aenter__(self) -> "Hall":
        self._following = asyncio.create_task(self.broadcast.follow(self.page))
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.broadcast.close()
        await self._following

    def lag(self, seconds: int) -> None:
        self.board.team("a", "mi", "lagging", lag_s=float(seconds))
        self.board.tick()

    def ring(self, seconds: int) -> None:
        """One round with one update."""
        before = self.board.snapshot().id
        self.lag(seconds)
        self.broadcast.ring(Batch(before, self.board.after(before) or ()))


def test_a_page_is_told_a_snapshot_and_then_every_round() -> None:
    async def steps() -> list[int]:
        async with Hall() as hall:
            for seconds in (1, 2, 3):
                hall.ring(seconds)
        return hall.link.ids

    assert asyncio.run(steps()) == [1, 2, 3, 4]


def test_a_page_that_is_up_to_date_gets_the_round_as_it_was_encoded() -> None:
    async def steps() -> bool:
        async with Hall() as hall:
            hall.ring(1)
            (update,) = hall.board.after(f"{hall.page.cursor.partition('-')[0]}-1") or ()
        return hall.link.written[-1] is update.encoded

    assert asyncio.run(steps())


def test_a_page_that_missed_a_round_is_told_of_it_in_the_next_one() -> None:
    async def steps() -> list[int]:
        async with Hall() as hall:
            hall.lag(1)
            hall.lag(2)
            hall.ring(3)
        return hall.link.ids

    assert asyncio.run(steps()) == [1, 2, 3, 4]


def test_a_page_that_does_not_read_is_told_no_more_and_then_all_of_it() -> None:
    async def steps() -> tuple[list[int], list[int]]:
        async with Hall() as hall:
            hall.link.waiting_bytes = MOST_WAITING_BYTES + 1
            for seconds in range(1, 6):
                hall.ring(seconds)
            before = hall.link.ids
            hall.link.waiting_bytes = 0
            hall.ring(6)
        return before, hall.link.ids

    before, after = asyncio.run(steps())
    assert before == [1]
    assert after == [1, 2, 3, 4, 5, 6, 7]


def test_a_round_without_news_tells_a_page_what_it_missed_and_else_nothing() -> None:
    async def steps() -> list[int]:
        async with Hall() as hall:
            hall.lag(1)
            for _ in range(3):
                hall.broadcast.ring(Batch(hall.board.snapshot().id, ()))
        return hall.link.ids

    assert asyncio.run(steps()) == [1, 2]


def test_a_page_without_news_is_told_that_the_judge_is_alive() -> None:
    async def steps() -> bytes:
        async with Hall() as hall:
            hall.broadcast.reassure()
        return hall.link.written[-1]

    assert asyncio.run(steps()) == ALIVE


def test_a_page_that_left_is_written_to_no_more() -> None:
    async def steps() -> list[int]:
        async with Hall() as hall:
            other = FakeLink()
            page = Page(
                cast("asyncio.WriteTransport", other), "", takes_gzip=False, takes_chunks=True
            )
            reading = asyncio.create_task(hall.broadcast.follow(page))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            hall.ring(1)
        return [len(other.written), len(hall.link.written)]

    assert asyncio.run(steps()) == [1, 2]
