"""How fast a thousand open pages hear of an update, against a bare aiohttp server in the same run.

    python scripts/bench_page.py --pages 1000 --updates 50

Each server runs in a process of its own and sends the same number of bytes; an update carries the
moment it was made (the machine's monotonic clock), and each page notes when it has read it. The two
servers take turns, so that a noisy machine is noisy for both.
"""

import asyncio
import multiprocessing as mp
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import click
import numpy as np

PERIOD_S = 0.2
TEAMS = 100
STAMP = "stamp:"


def serve_board(port_pipe: Connection) -> None:
    """Our page with a hundred teams, of which twelve lanes and one row move at each update."""
    from bci_stream.board.feed import Board
    from bci_stream.board.rehearsal import Rehearsal
    from bci_stream.board.web import WebBoard
    from tracks.run import Run

    class StampedBoard(Board):
        def tick(self) -> int:
            for player in players:
                player()
            self.team("team 0", "mi", "running", reason=f"{STAMP}{time.monotonic():.9f};")
            return super().tick()

    board = StampedBoard()

    def player_of(team: str) -> object:
        run, events = Run(), Rehearsal("mi", team, trials=50).events()

        def play() -> None:
            for _, event in zip(range(5), events, strict=False):
                board.event(team, "mi", event, run.feed(event), run)

        return play

    players = [player_of(f"team {n}") for n in range(TEAMS)]
    page = WebBoard(board, port=0, period_s=PERIOD_S)
    page.start()
    port_pipe.send(page.port)
    port_pipe.recv()
    page.stop()


def serve_bare(port_pipe: Connection, update_bytes: int) -> None:
    """The least that aiohttp needs to send events: a queue a client, and no more."""
    from aiohttp import web

    async def run() -> None:
        queues: set[asyncio.Queue[bytes]] = set()

        async def events(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            queue: asyncio.Queue[bytes] = asyncio.Queue()
            queues.add(queue)
            try:
                while True:
                    await response.write(await queue.get())
            except ConnectionError:
                queues.discard(queue)
                return response

        app = web.Application()
        app.router.add_get("/api/v1/events", events)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        port_pipe.send(runner.addresses[0][1])
        while not port_pipe.poll():
            head = f"event: update\ndata: {STAMP}{time.monotonic():.9f};"
            message = head.ljust(update_bytes - 2, ".").encode() + b"\n\n"
            for queue in tuple(queues):
                queue.put_nowait(message)
            await asyncio.sleep(PERIOD_S)
        await runner.cleanup()

    asyncio.run(run())


@dataclass
class Pages:
    """All open pages together: what they measured once every one of them was open."""

    wanted: int
    opened: int = 0
    delays_s: list[float] = field(default_factory=list)
    update_bytes: list[int] = field(default_factory=list)

    def note(self, line: bytes, now: float) -> bool:
        """Whether this update counts: those that come while pages still connect do not."""
        if self.opened < self.wanted:
            return False
        stamp = line.rpartition(STAMP.encode())[2].partition(b";")[0]
        self.delays_s.append(now - float(stamp))
        self.update_bytes.append(len(line))
        return True


async def read_page(port: int, updates: int, pages: Pages) -> None:
    """One page: connects, and notes how old each update is when it has been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
    heard = counted = 0
    while counted < updates:
        line = await reader.readline()
        if not line:
            raise RuntimeError("the server closed a page's stream")
        if line.startswith(b"data: ") and STAMP.encode() in line:
            heard += 1
            # The first one may be the snapshot, which is older than the page.
            pages.opened += heard == 2
            counted += pages.note(line, time.monotonic())
    writer.close()


async def open_pages(port: int, wanted: int, updates: int) -> Pages:
    pages = Pages(wanted)
    started = []
    for number in range(wanted):
        started.append(asyncio.create_task(read_page(port, updates, pages)))
        if number % 50 == 49:
            await asyncio.sleep(0.05)
    await asyncio.gather(*started)
    return pages


def measure(
    target: Callable[..., None], arguments: tuple[int, ...], pages: int, updates: int
) -> Pages:
    ours, theirs = mp.Pipe()
    server = mp.get_context("spawn").Process(target=target, args=(theirs, *arguments), daemon=True)
    server.start()
    try:
        return asyncio.run(open_pages(ours.recv(), pages, updates))
    finally:
        ours.send("stop")
        server.join(5)
        server.terminate()


def p99_ms(pages: Pages) -> float:
    return float(1000 * np.percentile(pages.delays_s, 99))


@click.command()
@click.option("--pages", default=1000, show_default=True)
@click.option("--updates", default=30, show_default=True, help="Updates measured in each round.")
@click.option("--rounds", default=5, show_default=True)
def main(pages: int, updates: int, rounds: int) -> None:
    """Print the delay of an update for both servers in each round, and the ratio of the medians."""
    found: dict[str, list[float]] = {"board": [], "bare": []}
    for _ in range(rounds):
        ours = measure(serve_board, (), pages, updates)
        size = round(float(np.mean(ours.update_bytes)))
        bare = measure(serve_bare, (size,), pages, updates)
        for name, measured in (("board", ours), ("bare", bare)):
            found[name].append(p99_ms(measured))
        p50s = [1000 * float(np.median(measured.delays_s)) for measured in (ours, bare)]
        click.echo(
            f"{size} bytes  p50 board {p50s[0]:6.1f} ms, bare {p50s[1]:6.1f} ms"
            f"   p99 board {found['board'][-1]:7.1f} ms, bare {found['bare'][-1]:7.1f} ms"
        )
    ratio = float(np.median(found["board"]) / np.median(found["bare"]))
    click.echo(
        f"{pages} pages: p99 board / bare, medians of {rounds} rounds: {ratio:.2f} (wanted: at most 1.5)"
    )


if __name__ == "__main__":
    main()
