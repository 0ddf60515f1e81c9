"""Events to a page: no update is lost, whenever the page is ready for the next one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from bci_stream.board.feed import Board
from bci_stream.board.sse import ALIVE, Batch, Broadcast, Page, _follow

T = TypeVar("T")
PATIENCE_S = 20


def run(make: Callable[[], Awaitable[T]]) -> T:
    async def within() -> T:
        return await asyncio.wait_for(make(), PATIENCE_S)

    return asyncio.run(within())


class FakePage:
    """Takes what is written to it, and does something at each write."""

    def __init__(self, at_write: Callable[[int], None] = lambda _: None) -> None:
        self.written: list[bytes] = []
        self._at_write = at_write

    async def write(self, data: bytes) -> None:
        self.written.append(data)
        self._at_write(len(self.written))

    @property
    def ids(self) -> list[int]:
        lines = [data.split(b"\n")[0] for data in self.written if data.startswith(b"id")]
        return [int(line.rpartition(b"-")[2]) for line in lines]


def lag(board: Board, seconds: int) -> None:
    board.team("a", "mi", "lagging", lag_s=float(seconds))
    board.tick()


def follow(board: Board, broadcast: Broadcast, page: Any) -> Awaitable[None]:
    return _follow(Page(page, takes_gzip=False), "", board, broadcast)


def test_a_batch_that_came_while_the_page_was_written_to_is_not_waited_for() -> None:
    async def steps() -> Batch:
        broadcast = Broadcast()
        last = broadcast.batch
        broadcast.ring(Batch("x-1", ()))
        return await broadcast.next(last)

    assert run(steps).after == "x-1"


def test_a_page_that_missed_a_round_is_told_of_it_in_the_next_one() -> None:
    async def steps() -> list[int]:
        board, broadcast = Board(), Broadcast()
        lag(board, 0)

        def at_write(count: int) -> None:
            if count == 1:  # while the snapshot is written two updates are made, one round is rung
                lag(board, 1)
                lag(board, 2)
                broadcast.ring(Batch("of-other-pages", board.after(board.snapshot().id) or ()))
            if count == 3:
                broadcast.close()

        page = FakePage(at_write)
        await follow(board, broadcast, page)
        return page.ids

    assert run(steps) == [1, 2, 3]


def test_a_page_that_is_up_to_date_gets_the_round_as_it_was_encoded() -> None:
    async def steps() -> list[int]:
        board, broadcast = Board(), Broadcast()
        lag(board, 0)

        def at_write(count: int) -> None:
            before = board.snapshot().id
            lag(board, count)
            broadcast.ring(Batch(before, board.after(before) or ()))
            if count == 4:
                broadcast.close()

        page = FakePage(at_write)
        await follow(board, broadcast, page)
        return page.ids

    assert run(steps) == [1, 2, 3, 4]


def test_a_round_without_news_tells_the_page_that_the_judge_is_alive() -> None:
    async def steps() -> list[bytes]:
        board, broadcast = Board(), Broadcast()

        def at_write(count: int) -> None:
            if count == 1:
                broadcast.ring(Batch(board.snapshot().id, ()))
            else:
                broadcast.close()

        page = FakePage(at_write)
        await follow(board, broadcast, page)
        return page.written

    assert run(steps)[1:] == [ALIVE]
