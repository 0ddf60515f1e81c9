"""CPU of the viewer's process: 64 leads at 1 kHz in packets of 40 ms, with one page that reads.

python scripts/bench/look.py --seconds 30
"""

import argparse
import asyncio
import json
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


def feed(view: LiveView, stop: threading.Event) -> None:
    rows = np.random.default_rng(0).normal(0, 20, (PACKET, LEADS)).astype(np.float32)
    begin, n = time.monotonic(), 0
    while not stop.wait(max(0.0, begin + n / RATE - time.monotonic())):
        view.add(RawPacket(rows, (), n, 0, False))
        n += PACKET


async def read_page(port: int, seconds: float) -> int:
    """Frames that a page received."""
    frames = 0
    async with (
        ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/frames", max_msg_size=0) as page,
    ):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            frames += json.loads((await page.receive()).data)["kind"] == "frame"
    return frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
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
    before, begin = time.process_time(), time.monotonic()
    frames = asyncio.run(read_page(listening.getsockname()[1], seconds))
    cpu_s, passed_s = time.process_time() - before, time.monotonic() - begin
    stop.set()
    for thread in threads:
        thread.join()
    print(
        f"{LEADS} leads at {RATE:g} Hz: {100 * cpu_s / passed_s:.1f} % of a core over {passed_s:.0f} s, "
        f"{frames} frames, with the reading page in the same process"
    )


if __name__ == "__main__":
    main()
