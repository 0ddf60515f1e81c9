"""Lockstep over LSL against a bare LSL request/packet round trip, in one run.

    python scripts/bench/lockstep.py [--slices 60]

Both move 65 channels x 40 samples between two processes, one packet a request. The bare one does
nothing else; ours signs, seals, verifies, cuts packets, and a judge in a third process logs every packet.
The two take turns in one process, a fraction of a second each, since this machine is not equally fast
all the time: the decoder of our run does nothing but to let the other one have its turn now and then.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError
from bci_stream.judge.judge import Judge
from bci_stream.packet import Lead, Packet, SignalInfo
from bci_stream.wire import names
from bci_stream.wire.client import TeamClient
from bci_stream.wire.handshake import wait_for_stream
from bci_stream.wire.lsl import LslTransport
from decoders.worker import Worker
from replay.model.recording import ArrayBlock, Recording
from replay.player.plan import PlaybackPlan
from replay.player.player import Pace, Player
from scripts.bench.judge import Silent
from scripts.bench.ratios import report_ratio
from tracks.registry import TRACKS

SESSION = "bench-lockstep"
LEADS = tuple(Lead(f"E{n}") for n in range(64))
N = 40
WARM_UP, SLICE = 25, 250
"""Packets at the beginning of a turn that are not counted, and those that are."""

STOP = threading.Event()


def bare_server(packets: int) -> None:
    """Answers each request with a packet, and knows nothing else."""
    transport = LslTransport(session=SESSION)
    spec = names.signal_stream("bare", "server", 1000.0, LEADS)
    outlet = transport.sample_outlet(spec)
    found = wait_for_stream(transport, "bci/bare/results/client", "the client", 60, STOP)
    requests = transport.text_inlet(found, 10)
    samples = np.zeros((N, 65), dtype=np.float32)
    sent = 0
    try:
        while sent < packets:
            for _ in requests.pull(1.0):
                outlet.push(samples, transport.now())
                sent += 1
    except LostError:
        return  # the client has what it wanted


class BareClient:
    """Asks for packets and takes them, and knows nothing else."""

    def __init__(self) -> None:
        transport = LslTransport(session=SESSION)
        self._requests = transport.text_outlet(names.text_stream("bare", "results", "client"))
        found = wait_for_stream(transport, "bci/bare/signal/server", "the server", 60, STOP)
        self._inlet = transport.sample_inlet(found, 10)
        self._requests.push("next")  # repeated: the server may not be connected yet
        while not len(self._inlet.pull(N, 0.5)[0]):
            self._requests.push("next")
        while len(self._inlet.pull(N, 0.3)[0]):
            pass

    def round_trips(self, count: int) -> None:
        for _ in range(count):
            self._requests.push("next")
            if len(self._inlet.pull(N, 5.0)[0]) != N:
                raise SystemExit("the bare round trip lost a packet")


class Turns:
    """A decoder that does nothing: after every SLICE packets of ours, it lets the bare one have as many."""

    def __init__(self, bare: BareClient) -> None:
        self._bare = bare
        self._count = 0
        self._begun = 0.0
        self.lockstep: list[float] = []
        self.bare: list[float] = []

    def start(self, info: SignalInfo) -> None:
        pass

    def step(self, packet: Packet) -> list[object]:
        self._count += 1
        place = self._count % (WARM_UP + SLICE)
        if place == WARM_UP:
            self._begun = time.perf_counter()
        elif place == 0:
            self.lockstep.append(SLICE / (time.perf_counter() - self._begun))
            self._bare.round_trips(WARM_UP)
            begun = time.perf_counter()
            self._bare.round_trips(SLICE)
            self.bare.append(SLICE / (time.perf_counter() - begun))
        return []


def replay(folder: Path, packets: int) -> None:
    transport = LslTransport(session=SESSION)
    data = np.zeros((packets * N, 64), dtype=np.float32)
    recording = Recording("S01", 1000.0, LEADS, [ArrayBlock(data, ())])
    program = PlaybackPlan(TRACKS["mi"], (recording,), ({"blocks": [[1]]},), live=False)
    player = Player(transport, RealClock(transport.now), keyed_contest(folder), program, name="r",
                    pace=Pace(lockstep=True), start_on="judge", stop=STOP)  # fmt: skip
    player.play()


def judge(folder: Path) -> None:
    transport = LslTransport(session=SESSION)
    judge = Judge(transport, keyed_contest(folder), Silent(), stop=STOP, may_start=bool)
    judge.judge(lambda j: j.all_over(), 60)


def keyed_contest(folder: Path) -> Contest:
    """A contest with keys: everything is signed or sealed, and the client verifies it."""
    return Contest("ours", folder, results="sealed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=60)
    parser.add_argument("--role", default="")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    packets = options.slices * (WARM_UP + SLICE) + 1
    if options.role == "bare-server":
        bare_server(packets + 100)
    elif options.role == "replay":
        replay(options.folder, packets)
    elif options.role == "judge":
        judge(options.folder)
    else:
        show(compare(options.slices))


def compare(slices: int) -> Turns:
    with tempfile.TemporaryDirectory() as folder:
        contest = keyed_contest(Path(folder))
        token = contest.keys.token("null")
        common = [sys.executable, __file__, "--slices", str(slices), "--folder", folder]
        roles = ("bare-server", "replay", "judge")
        others = [subprocess.Popen([*common, "--role", role]) for role in roles]
        try:
            turns = Turns(BareClient())
            client = TeamClient(LslTransport(session=SESSION), "ours", "null", token, stop=STOP,
                                public_key=contest.keys.public_key(), sealed=True)  # fmt: skip
            Worker(client, turns, track="mi", join_s=60, stop=STOP).run()
            for process in others[1:]:
                process.wait(60)
        finally:
            for process in others:
                process.kill()
                process.wait()
    return turns


def show(turns: Turns) -> None:
    for name, rates in (("bare", turns.bare), ("lockstep", turns.lockstep)):
        low, middle, high = statistics.quantiles(rates, n=4)
        print(f"{name:>9}: {middle:5.0f} packets/s ({low:.0f} to {high:.0f} in half of the slices)")
    pairs = zip(turns.lockstep, turns.bare, strict=True)
    ratios = [ours / bare for ours, bare in pairs]
    report_ratio("lockstep", "packets a second", "bare LSL", ratios, "at least 0.75")


if __name__ == "__main__":
    main()
