"""How fast an update reaches a thousand open pages, compared with a bare aiohttp server.

    python scripts/bench/page.py --pages 1000 --updates 50

Each server runs in a process of its own. Another process adds events to the board, as the judge does:
a hundred teams in real time, whose trials all end at once; the updates go through the page's feed. An
update has the time at which it was begun (monotonic clock), and each page records when it has read the
last byte. The pages accept gzip, as browsers do. The bare server has its messages ready, and sends as
many bytes as the board did, update for update. The two take turns, so that other load on the machine
affects both.
"""

import asyncio
import multiprocessing as mp
import sys
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import click
import numpy as np

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.bench.ratios import report_ratio

PERIOD_S = 0.2
TEAMS = 100
STAMP = b"stamp:"
REQUEST = (
    b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
    b"Accept-Encoding: gzip\r\n\r\n"
)


def serve_board(port_pipe: Connection, pages: int) -> None:
    """Our page with a hundred teams, in a process of its own; a thread plays their events."""
    from bci_stream.leaderboard.board import Leaderboard
    from bci_stream.leaderboard.web.process import WebBoard
    from bci_stream.leaderboard.web.published import PageLimits
    from scripts.simulate_contest import SIGNAL_S, SimulatedSignals
    from scripts.simulated_runs import SimulatedRun
    from tracks.registry import TRACKS
    from tracks.run import Run

    class StampedBoard(Leaderboard):
        def tick(self) -> int:
            stamp = f"{STAMP.decode()}{time.monotonic():.9f};"
            self.team("team 0", "mi", "running", reason=stamp)
            return super().tick()

    def feed(stopped: threading.Event) -> None:
        names = [f"team {n}" for n in range(TEAMS)]
        packet_s = TRACKS["mi"].packet_samples / TRACKS["mi"].rate
        played = [(name, Run(), SimulatedRun("mi", name, trials=99).events()) for name in names]
        due = signal_due = time.monotonic()
        while not stopped.wait(max(0.0, due - time.monotonic())):
            if due >= signal_due:
                signals.push()
                signal_due += SIGNAL_S
            due += packet_s
            for name, run, events in played:
                event = next(events)
                board.event(name, "mi", event, run.feed(event), run)

    board, stopped, signals = StampedBoard(), threading.Event(), SimulatedSignals(["mi"])
    limits = PageLimits(connections=2 * pages + 100, per_address=2 * pages + 100)
    judge = threading.Thread(target=feed, args=(stopped,))
    page = WebBoard(board, port=0, period_s=PERIOD_S, limits=limits, signal=signals.source)
    page.start()
    judge.start()
    port_pipe.send(page.port)
    port_pipe.recv()
    stopped.set()
    judge.join()
    page.stop()


def serve_bare(port_pipe: Connection, sizes: list[int]) -> None:
    """A minimal aiohttp server of events: a queue per client."""
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
        number = 0
        while not port_pipe.poll():
            head = b"data: " + STAMP + f"{time.monotonic():.9f};".encode()
            message = head.ljust(sizes[number % len(sizes)] - 2, b".") + b"\n\n"
            number += 1
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
    sizes: dict[bytes, int] = field(default_factory=dict)
    _stamps: dict[bytes, float | None] = field(default_factory=dict)

    def stamp(self, chunk: bytes) -> float | None:
        """When an update was begun; None for another message. Pages get the same bytes, read once."""
        if chunk not in self._stamps:
            text = chunk if STAMP in chunk else _inflated(chunk)
            found = text.rpartition(STAMP)[2].partition(b";")[0] if STAMP in text else b""
            self._stamps[chunk] = float(found) if found else None
        return self._stamps[chunk]

    def note(self, chunk: bytes, stamp: float, now: float) -> bool:
        """Whether this update counts: those that come while pages still connect do not."""
        if self.opened < self.wanted:
            return False
        self.delays_s.append(now - stamp)
        self.sizes.setdefault(chunk, len(chunk))
        return True


def _inflated(chunk: bytes) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk)
    except zlib.error:
        return b""  # the head of the stream


async def read_page(port: int, updates: int, pages: Pages) -> None:
    """One page: connects, and notes how old each update is when it has been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(REQUEST)
    await reader.readuntil(b"\r\n\r\n")
    received = counted = 0
    while counted < updates:
        chunk = await read_chunk(reader)
        now = time.monotonic()
        stamp = pages.stamp(chunk)
        if stamp is not None:
            received += 1
            # The first one may be the snapshot, which is older than the page.
            pages.opened += received == 2
            counted += pages.note(chunk, stamp, now)
    writer.close()


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """What the server wrote at once."""
    size = int(await reader.readuntil(b"\r\n"), 16)
    if size == 0:
        raise RuntimeError("the server closed a page's stream")
    return (await reader.readexactly(size + 2))[:-2]


async def open_pages(port: int, wanted: int, updates: int) -> Pages:
    pages = Pages(wanted)
    started = []
    for number in range(wanted):
        started.append(asyncio.create_task(read_page(port, updates, pages)))
        if number % 50 == 49:
            await asyncio.sleep(0.05)
    await asyncio.gather(*started)
    return pages


def measure(target: Callable[..., None], argument: object, pages: int, updates: int) -> Pages:
    ours, theirs = mp.Pipe()
    server = mp.get_context("spawn").Process(target=target, args=(theirs, argument), daemon=True)
    server.start()
    try:
        return asyncio.run(open_pages(ours.recv(), pages, updates))
    finally:
        ours.send("stop")
        server.join(5)
        server.terminate()


def percentile_ms(pages: Pages, share: float) -> float:
    return float(1000 * np.percentile(pages.delays_s, share))


@click.command()
@click.option("--pages", default=1000, show_default=True)
@click.option("--updates", default=50, show_default=True, help="Updates measured in each round.")
@click.option("--rounds", default=5, show_default=True)
def main(pages: int, updates: int, rounds: int) -> None:
    """Print the delay of an update for both servers in each round, and the ratio of the medians."""
    found: dict[str, list[float]] = {"board": [], "bare": []}
    for _ in range(rounds):
        ours = measure(serve_board, pages, pages, updates)
        sizes = list(ours.sizes.values())
        bare = measure(serve_bare, sizes, pages, updates)
        for name, measured in (("board", ours), ("bare", bare)):
            found[name].append(percentile_ms(measured, 99))
        p50s = [percentile_ms(measured, 50) for measured in (ours, bare)]
        click.echo(
            f"{min(sizes)}-{max(sizes)} bytes  p50 board {p50s[0]:6.1f} ms, bare {p50s[1]:6.1f} ms"
            f"   p99 board {found['board'][-1]:7.1f} ms, bare {found['bare'][-1]:7.1f} ms"
        )
    pairs = zip(found["board"], found["bare"], strict=True)
    ratios = [board / bare for board, bare in pairs]
    report_ratio("page", f"p99 of an update, {pages} pages", "bare aiohttp", ratios, "at most 1.5")


if __name__ == "__main__":
    main()
