"""What lockstep adds to the compute of real decoders, over LSL.

    python scripts/bench/lockstep_decoders.py [--turns 3] [--track mi]...

Replay, judge and worker are three processes, in a contest with keys. Each turn plays one synthetic recording
twice: to a track's default decoder, whose own time is added up, and to a decoder that does nothing. The
figure is the time of the first run over the sum of that compute and the time of the second run. Runs are
timed from the first packet to the last.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bci_stream.clock import RealClock
from bci_stream.packet import Packet, SignalInfo
from bci_stream.wire.client import TeamClient
from bci_stream.wire.lsl import LslTransport
from decoders.decoder import Decoder
from decoders.registry import default_of, load
from decoders.worker import Worker
from replay.model.options import SourceOptions
from replay.player.plan import make_plan
from replay.player.player import Pace, Player
from replay.sources import open_source
from scripts.bench.lockstep import SESSION, STOP, judge, keyed_contest
from scripts.bench.ratios import report_ratio

RECORDINGS = {
    "mi": "synthetic:mi?subjects=1&blocks=1",
    "turing": "synthetic:turing?subjects=1&blocks=1",
    "erp": "synthetic:erp?subjects=1&trials=6",
}


class EmptyDecoder:
    """A decoder that does nothing."""

    def start(self, info: SignalInfo) -> None:
        pass

    def step(self, packet: Packet) -> list[object]:
        return []


class TimedDecoder:
    """Adds up the time of a decoder, and notes when its first and last packets arrive and are done."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.start = decoder.start
        self.compute_s = 0.0
        self.packets = 0
        self.began_at = self.ended_at = 0.0

    def step(self, packet: Packet) -> object:
        begun = time.perf_counter()
        self.began_at = self.began_at or begun
        results = self._decoder.step(packet)
        self.ended_at = time.perf_counter()
        self.compute_s += self.ended_at - begun
        self.packets += 1
        return results

    @property
    def run_s(self) -> float:
        return self.ended_at - self.began_at


def replay(folder: Path, track: str) -> None:
    transport = LslTransport(session=SESSION)
    plan = make_plan(open_source(RECORDINGS[track], SourceOptions()), track)
    player = Player(transport, RealClock(transport.now), keyed_contest(folder), plan, name="r",
                    pace=Pace(lockstep=True), start_on="judge", stop=STOP)  # fmt: skip
    player.play()


def run(track: str, decoder: Decoder) -> TimedDecoder:
    """Play a track's recording to a decoder."""
    timed = TimedDecoder(decoder)
    with tempfile.TemporaryDirectory() as folder:
        contest = keyed_contest(Path(folder))
        token = contest.keys.token("team")
        command = [sys.executable, __file__, "--folder", folder, "--track", track, "--role"]
        others = [subprocess.Popen([*command, role]) for role in ("replay", "judge")]
        client = TeamClient(LslTransport(session=SESSION), "ours", "team", token, stop=STOP,
                            public_key=contest.keys.public_key(), sealed=True)  # fmt: skip
        try:
            Worker(client, timed, track=track, join_s=60, stop=STOP).run()  # type: ignore[arg-type]
            for process in others:
                process.wait(60)
        finally:
            for process in others:
                process.kill()
                process.wait()
    return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--track", action="append", choices=list(RECORDINGS), help="repeatable")
    parser.add_argument("--role", default="")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    tracks = given.track or list(RECORDINGS)
    if given.role == "replay":
        replay(given.folder, tracks[0])
    elif given.role == "judge":
        judge(given.folder)
    else:
        for track in tracks:
            compare(track, given.turns)


def compare(track: str, turns: int) -> None:
    ratios = []
    for _ in range(turns):
        real = run(track, load(default_of(track), track=track))
        empty = run(track, EmptyDecoder())
        ratios.append(real.run_s / (real.compute_s + empty.run_s))
        print(
            f"{track}: {real.packets} packets in {real.run_s:.2f} s, of which compute "
            f"{real.compute_s:.2f} s; empty run {empty.run_s:.2f} s"
        )
    measure = f"lockstep run with {default_of(track)}"
    report_ratio("lockstep_decoders", measure, "its compute + an empty run", ratios, "at most 1.25")


if __name__ == "__main__":
    main()
