"""Lockstep over LSL against a bare LSL request/packet round trip, in one run.

    python scripts/bench_lockstep.py [--packets 6000]

Both move 65 channels x 40 samples between two processes, one packet a request. The bare one does
nothing else; ours signs, checks, cuts packets, and a judge in a third process logs every one of them.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError
from bci_stream.judge.judge import Judge
from bci_stream.packet import Lead, Packet, SignalInfo
from bci_stream.wire import names
from bci_stream.wire.finding import wait_for_stream
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.seat import Seat
from decoders.worker import Worker
from replay.pace import Pace
from replay.player import Player
from replay.program import Program
from replay.recording import ArrayBlock, Recording
from tracks import TRACKS

SESSION = "bench-lockstep"
LEADS = tuple(Lead(f"E{n}") for n in range(64))
N = 40
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


def bare_client(packets: int, warm_up: int) -> float:
    transport = LslTransport(session=SESSION)
    requests = transport.text_outlet(names.text_stream("bare", "results", "client"))
    found = wait_for_stream(transport, "bci/bare/signal/server", "the server", 60, STOP)
    inlet = transport.sample_inlet(found, 10)
    requests.push("next")  # said again until it is heard: the server may still be opening its ears
    while not len(inlet.pull(N, 0.5)[0]):
        requests.push("next")
    while len(inlet.pull(N, 0.3)[0]):
        pass
    begun = 0.0
    for k in range(packets):
        if k == warm_up:
            begun = time.perf_counter()
        requests.push("next")
        if len(inlet.pull(N, 5.0)[0]) != N:
            raise SystemExit("the bare round trip lost a packet")
    seconds = time.perf_counter() - begun
    requests.push("bye")
    return (packets - warm_up) / seconds


class Null:
    """A decoder that does nothing but look at the clock."""

    def __init__(self, warm_up: int) -> None:
        self._warm_up = warm_up
        self.count = 0
        self.begun = self.ended = 0.0

    def start(self, info: SignalInfo) -> None:
        pass

    def step(self, packet: Packet) -> list[object]:
        self.count += 1
        if self.count == self._warm_up:
            self.begun = time.perf_counter()
        self.ended = time.perf_counter()
        return []


def ours(role: str, folder: Path, packets: int, warm_up: int) -> float:
    transport = LslTransport(session=SESSION)
    contest = Contest("ours", folder)
    if role == "replay":
        data = np.zeros((packets * N, 64), dtype=np.float32)
        recording = Recording("S01", 1000.0, LEADS, [ArrayBlock(data, ())])
        program = Program(TRACKS["mi"], (recording,), ({"blocks": [[1]]},), live=False)
        clock = RealClock(transport.now)
        player = Player(transport, clock, contest, program, name="r", pace=Pace(lockstep=True),
                        start_on="judge", stop=STOP)  # fmt: skip
        player.play()
        return 0.0
    if role == "judge":
        judge = Judge(transport, contest, _Nowhere(), stop=STOP, expected=bool)
        judge.judge(lambda j: j.all_over(), 60)
        return 0.0
    seat = Seat(transport, "ours", "null", contest.keys.token("null"), stop=STOP, say=print)
    null = Null(warm_up)
    Worker(seat, null, track="mi", join_s=60, stop=STOP).run()
    return (null.count - warm_up) / (null.ended - null.begun)


class _Nowhere:
    def team(self, *_: object, **__: object) -> None:
        pass

    def event(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=6000)
    parser.add_argument("--warm-up", type=int, default=500)
    parser.add_argument("--role", default="")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    if options.role == "bare-server":
        bare_server(options.packets + 100)
    elif options.role:
        ours(options.role, options.folder, options.packets, options.warm_up)
    else:
        compare(options.packets, options.warm_up)


def compare(packets: int, warm_up: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        common = [sys.executable, __file__, "--packets", str(packets), "--folder", folder]
        server = subprocess.Popen([*common, "--role", "bare-server"])
        bare = bare_client(packets, warm_up)
        server.kill()
        server.wait()
        Contest("ours", Path(folder)).keys.contest_key()
        others = [subprocess.Popen([*common, "--role", role]) for role in ("replay", "judge")]
        rate = ours("team", Path(folder), packets, warm_up)
        for process in others:
            process.wait(60)
    print(f"bare LSL request/packet round trip: {bare:7.0f} packets/s")
    print(f"lockstep with judge and run log:    {rate:7.0f} packets/s")
    print(f"ratio: {rate / bare:.2f} (at least 0.80 is asked for)")


if __name__ == "__main__":
    main()
