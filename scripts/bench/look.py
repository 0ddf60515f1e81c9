"""CPU of the viewer's process: 64 leads at 1 kHz in packets of 40 ms, with one page that reads.

    python scripts/bench/look.py [--seconds 30] [--without-page]

The page is a process of its own, so that what it costs to read the frames is not counted. Prints the share of
a core over the time, and the frames that the page received.
"""

import argparse
import asyncio
import multiprocessing
import threading
import time

import numpy as np
from aiohttp import ClientSession

from bci_stream.packet import Lead
from bci_stream.page_server import listen
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import RawPacket
from replay.tools.look.live import LiveView
from replay.tools.look.server import serve

RATE, LEADS, PACKET = 1000.0, 64, 40
SETTLE_S = 5.0
"""Not measured: by then the page is open, and 4 s of signal are judged."""


def feed(view: LiveView, stop: threading.Event) -> None:
    rows = np.random.default_rng(0).normal(0, 20, (PACKET, LEADS)).astype(np.float32)
    begin, n = time.monotonic(), 0
    while not stop.wait(max(0.0, begin + n / RATE - time.monotonic())):
        view.add(RawPacket(rows, (), n, 0, False))
        n += PACKET


async def read_frames(port: int, seconds: float) -> int:
    """Frames that a page received."""
    frames, end = 0, time.monotonic() + seconds
    async with (
        ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/frames", max_msg_size=0) as page,
    ):
        await page.receive(timeout=10)  # what the source is
        while time.monotonic() < end:
            await page.receive(timeout=10)
            frames += 1
    return frames


def page(port: int, seconds: float) -> None:
    print(f"{asyncio.run(read_frames(port, seconds))} frames received", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--without-page", action="store_true", help="no page is open")
    options = parser.parse_args()
    leads = tuple(Lead(f"E{k}", position=(0.01 * k, 0.02, 0.09)) for k in range(LEADS))
    block = ArrayBlock(np.zeros((1, LEADS), dtype=np.float32), ())
    view, stop = LiveView(Recording("S1", RATE, leads, [block])), threading.Event()
    listening = listen("127.0.0.1", 0)
    threads = [
        threading.Thread(target=feed, args=(view, stop)),
        threading.Thread(target=lambda: asyncio.run(serve(view, listening, stop))),
    ]
    for thread in threads:
        thread.start()
    reader = None
    if not options.without_page:
        arguments = (listening.getsockname()[1], SETTLE_S + options.seconds)
        reader = multiprocessing.get_context("spawn").Process(target=page, args=arguments)
        reader.start()
    time.sleep(SETTLE_S)
    before, begin = time.process_time(), time.monotonic()
    time.sleep(options.seconds)
    cpu_s, passed_s = time.process_time() - before, time.monotonic() - begin
    if reader is not None:
        reader.join(60)
    stop.set()
    for thread in threads:
        thread.join()
    print(
        f"{LEADS} leads at {RATE:g} Hz: {100 * cpu_s / passed_s:.1f} % of a core over {passed_s:.0f} s, "
        + ("no page open" if reader is None else "the page not counted")
    )


if __name__ == "__main__":
    main()
