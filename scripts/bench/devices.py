"""Measures an amplifier's way to an LSL consumer: latency, CPU, loss.

Three processes, as in a lab: the emulated amplifier, `bci-replay start`, and a consumer (this one).
Lead 1 of the recording counts its samples, so that each sample's moment of sending is known.

    python scripts/bench/devices.py --seconds 600
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import click
import numpy as np

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bci_stream.packet import Lead
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.transport import SampleInlet
from replay.devices.emulator.amplifier import EmulatedAmplifier
from replay.devices.emulator.emulator import Emulator, client_uri
from replay.devices.emulator.encoders import PROTOCOLS, EmulatedSignal
from replay.model.recording import ArrayBlock, Recording
from replay.tools.commands import PROTOCOL_NAMES
from scripts.bench.ratios import report_ratio

RATE = 1000
PACKET = 40
LEADS = tuple(Lead(f"ch{i + 1}") for i in range(64))
WARM_UP_S = 3.0
LIMITS = "limits: p50 under 2 ms, under 10 % of a core, nothing lost"


def counting(seconds: float) -> Recording:
    n = round(seconds * RATE)
    noise = np.random.default_rng(0).normal(0, 20, (RATE, len(LEADS))).astype(np.float32)
    data = np.tile(noise, (n // RATE + 1, 1))[:n]
    data[:, 0] = np.arange(1, n + 1)
    return Recording("bench", RATE, LEADS, [ArrayBlock(data, ())])


def serve(protocol: str, seconds: float, pipe: Connection) -> None:
    """The amplifier's process: sends its port, then when its clock started."""
    emulator = Emulator(EmulatedAmplifier(EmulatedSignal(counting(seconds)), protocol))
    pipe.send(emulator.port)
    emulator.start()
    while emulator.began is None:
        time.sleep(0.01)
    pipe.send(emulator.began)
    pipe.recv()
    emulator.close()


@dataclass(frozen=True)
class Measured:
    latency_ms: np.ndarray
    samples: int
    lost: int
    cpu_share: float


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def find_signal(transport: LslTransport, patience_s: float) -> SampleInlet:
    watch = transport.watch("bci/")
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        for found in watch.found():
            if "/signal/" in found.source_id:
                watch.close()
                return transport.sample_inlet(found, 10.0)
        time.sleep(0.1)
    raise click.ClickException(f"no signal stream within {patience_s:g} s")


def align(inlet: SampleInlet) -> None:
    """Pass over the handshake's row of zeros and the rest of the first packet."""
    while True:
        samples, _ = inlet.pull(1, 10.0)
        if not len(samples):
            raise click.ClickException("no samples came within 10 s")
        if samples[0, 0]:
            inlet.pull(PACKET - 1, 10.0)
            return


def consume(
    inlet: SampleInlet, transport: LslTransport, began: float, piece: int, pid: int, seconds: float
) -> Measured:
    """Pull packets; a packet could not have come before the piece with its last sample was sent."""
    align(inlet)
    end = transport.now() + WARM_UP_S
    while transport.now() < end:
        inlet.pull(PACKET, 1.0)
    cpu_before, begun = cpu_s(pid), transport.now()
    latencies, counted = [], []
    while transport.now() - begun < seconds:
        samples, _ = inlet.pull(PACKET, 2.0)
        now = transport.now()
        if not len(samples):
            break
        counted.append(samples[:, 0].astype(np.int64))
        sent = began + -(-int(counted[-1][-1]) // piece) * piece / RATE
        latencies.append(1000 * (now - sent))
    took = transport.now() - begun
    numbers = np.concatenate(counted)
    lost = int(numbers[-1] - numbers[0] + 1 - len(numbers))
    return Measured(np.array(latencies), len(numbers), lost, (cpu_s(pid) - cpu_before) / took)


def measure(protocol: str, seconds: float) -> Measured:
    ours, theirs = multiprocessing.Pipe()
    length_s = seconds + WARM_UP_S + 60
    context = multiprocessing.get_context("spawn")
    amplifier = context.Process(target=serve, args=(protocol, length_s, theirs))
    amplifier.start()
    session = f"bench-{os.getpid()}"
    uri = client_uri("127.0.0.1", ours.recv(), protocol, counting(1))
    with tempfile.TemporaryDirectory() as home:
        replay = subprocess.Popen(
            [sys.executable, "-m", "replay", "start", uri, "--name", "bench", "--foreground",
             "--start", "consumer", "--lsl-session", session],
            env=os.environ | {"BCI_HOME": home, "XDG_RUNTIME_DIR": home},
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            transport = LslTransport("machine", session)
            inlet = find_signal(transport, 60)
            piece = PROTOCOLS[protocol](RATE, LEADS).piece_samples
            return consume(inlet, transport, ours.recv(), piece, replay.pid, seconds)
        finally:
            replay.terminate()
            replay.wait()
            ours.send("end")
            amplifier.join()


@click.command()
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--protocol", "protocols", type=click.Choice(PROTOCOL_NAMES), multiple=True)
def main(seconds: float, protocols: tuple[str, ...]) -> None:
    """64 leads at 1 kHz from the emulator to an LSL consumer."""
    click.echo(f"{len(LEADS)} leads, {RATE} Hz, packets of {PACKET}, {seconds:g} s each; {LIMITS}")
    for protocol in protocols or ("raw",):
        got = measure(protocol, seconds)
        p50, p99 = np.percentile(got.latency_ms, (50, 99))
        click.echo(
            f"{protocol:18} p50 {p50:.2f} ms, p99 {p99:.2f} ms beyond the packet; replay "
            f"{100 * got.cpu_share:.1f} % of a core; {got.samples} samples, {got.lost} lost"
        )
        ratio = float(p50) / (1000 * PACKET / RATE)
        report_ratio(
            "devices", f"delay of a packet from an amplifier ({protocol})", "its length", [ratio]
        )


if __name__ == "__main__":
    main()
