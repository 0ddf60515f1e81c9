"""What the host's pipe costs: a packet of 65 x 40 float32 into a submission's process and back.

    python scripts/bench_host.py [--packets 5000] [--strength auto|bubblewrap|limits]

Two submissions are fed the same packets: one only asks for the next, one also reports after each.
The figure is the time from step() to its return, less that of a decoder that does nothing here.
Exits with 1 where the median of the first is 100 us or more.
"""

import argparse
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from bci_stream.packet import Lead, Packet, SignalInfo
from decoders.decoder import Decoder
from decoders.host.submission import SubmissionDecoder

ALLOWED_US = 100.0
LEADS, SAMPLES, RATE = 64, 40, 1000.0
SUBMISSION = """
from Algorithm.AlgorithmInterface import AlgorithmInterface

class AlgorithmImplement(AlgorithmInterface):
    def run(self):
        finish = False
        while not finish:
            model = self.comm_proxy.get_data()
            REPORT
            finish = model.finish_flag
"""
KINDS = {"asks only": "pass", "asks and reports": "self.comm_proxy.report(1)"}


class Nothing:
    """The same calls without a host."""

    def start(self, info: SignalInfo) -> None: ...

    def step(self, packet: Packet) -> list[object]:
        return []


def step_times_us(decoder: Decoder, packets: int) -> NDArray[np.float64]:
    """How long each step took; the first tenth, where caches fill, is left out."""
    leads = tuple(Lead(f"E{number}") for number in range(LEADS))
    decoder.start(SignalInfo("mi", "S1", RATE, leads, SAMPLES))
    samples = np.random.default_rng(1).normal(size=(SAMPLES, LEADS + 1)).astype(np.float32)
    times = np.zeros(packets)
    for number in range(packets):
        packet = Packet(samples, (), number * SAMPLES, 0, "S1", number == packets - 1)
        begun = time.perf_counter()
        decoder.step(packet)
        times[number] = (time.perf_counter() - begun) * 1e6
    return times[packets // 10 :]


def echo_times_us(packets: int) -> NDArray[np.float64]:
    """The same bytes to another process and a word back, by bare sockets: what the machine takes."""
    ours, theirs = socket.socketpair()
    count = (LEADS + 1) * SAMPLES * 4
    if os.fork() == 0:
        ours.close()
        while theirs.recv(count, socket.MSG_WAITALL):
            theirs.sendall(b"ask")
        os._exit(0)
    theirs.close()
    times = np.zeros(packets)
    with ours:
        for number in range(packets):
            begun = time.perf_counter()
            ours.sendall(bytes(count))
            ours.recv(3)
            times[number] = (time.perf_counter() - begun) * 1e6
    os.wait()
    return times


def hosted_times_us(body: str, packets: int, strength: str) -> NDArray[np.float64]:
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder) / "Algorithm" / "impl" / "AlgorithmImplement.py"
        entry.parent.mkdir(parents=True)
        entry.write_text(SUBMISSION.replace("REPORT", body))
        decoder = SubmissionDecoder(folder, "mi", strength=strength)  # type: ignore[arg-type]
        try:
            return step_times_us(decoder, packets)
        finally:
            decoder.close()


def show(kind: str, times_us: NDArray[np.float64]) -> None:
    p10, p50, p90, p99 = np.percentile(times_us, [10, 50, 90, 99])
    print(f"{kind:<18} p10 {p10:6.1f}  p50 {p50:6.1f}  p90 {p90:6.1f}  p99 {p99:7.1f} us")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--packets", type=int, default=5000)
    parser.add_argument("--strength", choices=["auto", "bubblewrap", "limits"], default="auto")
    options = parser.parse_args()
    base_us = float(np.median(step_times_us(Nothing(), options.packets)))
    print(
        f"{options.packets} packets of {LEADS + 1} x {SAMPLES} float32, load {os.getloadavg()[0]:.1f}"
    )
    show("bare socket echo", echo_times_us(options.packets))
    slow = False
    for kind, body in KINDS.items():
        times = hosted_times_us(body, options.packets, options.strength) - base_us
        show(kind, times)
        slow |= kind == "asks only" and bool(np.median(times) >= ALLOWED_US)
    return int(slow)


if __name__ == "__main__":
    raise SystemExit(main())
