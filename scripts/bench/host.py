"""What the host's pipe costs: a packet of 65 x 40 float32 into a submission's process and back.

    python scripts/bench/host.py [--packets 5000] [--repeats 5] [--strength auto|bubblewrap|limits]

Two submissions are fed the same packets: one only asks for the next, one also reports after each.
The figure is the time from step() to its return, less that of a decoder that does nothing here. Each
repeat starts a new process; their medians are shown one by one. Exits with 1 where the middle one of
the first submission's medians is 100 us or more.

Packets follow each other at once, as in a lockstep run. `40 ms apart` is the same in real time, where
both processes fall asleep between packets: how long a machine takes to wake them is shown by the echo.
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

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bci_stream.packet import Lead, Packet, SignalInfo
from decoders.decoder import Decoder
from decoders.host.limits import EnvironmentFailed
from decoders.host.submission import SubmissionDecoder
from scripts.bench.ratios import report_ratio

ALLOWED_US = 100.0
APART_S = 0.04
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


def step_times_us(decoder: Decoder, packets: int, apart_s: float = 0.0) -> NDArray[np.float64]:
    """How long each step took; the first tenth, where caches fill, is left out."""
    leads = tuple(Lead(f"E{number}") for number in range(LEADS))
    decoder.start(SignalInfo("mi", "S1", RATE, leads, SAMPLES))
    samples = np.random.default_rng(1).normal(size=(SAMPLES, LEADS + 1)).astype(np.float32)
    times = np.zeros(packets)
    for number in range(packets):
        packet = Packet(samples, (), number * SAMPLES, 0, "S1", number == packets - 1)
        if apart_s:  # sleep(0) is a sleep, too: packets that follow at once would come 80 us apart
            time.sleep(apart_s)
        begun = time.perf_counter()
        decoder.step(packet)
        times[number] = (time.perf_counter() - begun) * 1e6
    return times[packets // 10 :]


def echo_times_us(packets: int, apart_s: float = 0.0) -> NDArray[np.float64]:
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
            if apart_s:
                time.sleep(apart_s)
            begun = time.perf_counter()
            ours.sendall(bytes(count))
            ours.recv(3)
            times[number] = (time.perf_counter() - begun) * 1e6
    os.wait()
    return times


def hosted_times_us(
    body: str, packets: int, strength: str, apart_s: float = 0.0
) -> NDArray[np.float64]:
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder) / "Algorithm" / "impl" / "AlgorithmImplement.py"
        entry.parent.mkdir(parents=True)
        entry.write_text(SUBMISSION.replace("REPORT", body))
        decoder = SubmissionDecoder(folder, "mi", strength=strength)  # type: ignore[arg-type]
        try:
            return step_times_us(decoder, packets, apart_s)
        finally:
            decoder.close()


def show(kind: str, repeats: list[NDArray[np.float64]]) -> float:
    """Percentiles over all repeats, and each one's median; returns the middle one of these."""
    p10, p50, p90, p99 = np.percentile(np.concatenate(repeats), [10, 50, 90, 99])
    medians = [float(np.median(times)) for times in repeats]
    each = " ".join(f"{median:.1f}" for median in medians)
    print(
        f"{kind:<28} p10 {p10:6.1f}  p50 {p50:6.1f}  p90 {p90:6.1f}  p99 {p99:7.1f} us"
        f"   medians {each}",
        flush=True,
    )
    return float(np.median(medians))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--packets", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--strength", choices=["auto", "bubblewrap", "limits"], default="auto")
    options = parser.parse_args()
    packets, turns = options.packets, range(options.repeats)
    base_us = float(np.median(step_times_us(Nothing(), packets)))
    print(f"{packets} packets of {LEADS + 1} x {SAMPLES} float32, load {os.getloadavg()[0]:.1f}")

    def hosted(body: str, packets: int, apart_s: float = 0.0) -> list[NDArray[np.float64]]:
        strength = options.strength
        return [hosted_times_us(body, packets, strength, apart_s) - base_us for _ in turns]

    echoes = [echo_times_us(packets) for _ in turns]
    show("bare socket echo", echoes)
    medians_us = []
    for kind, body in KINDS.items():
        times = hosted(body, packets)
        medians_us.append(show(kind, times))
        ratios = [float(np.median(t) / np.median(e)) for t, e in zip(times, echoes, strict=True)]
        report_ratio("host", f"a packet to a submission, {kind}", "bare socket echo", ratios)
    few = 100
    show("40 ms apart, the echo", [echo_times_us(few, APART_S) for _ in turns])
    show("40 ms apart, asks only", hosted(KINDS["asks only"], few, APART_S))
    return int(medians_us[0] >= ALLOWED_US)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except EnvironmentFailed as error:
        raise SystemExit(f"Error: {error}") from None
