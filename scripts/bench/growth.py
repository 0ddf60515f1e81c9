"""Does a packet of a long run cost more than one of a short run, and a team more among many?

    python scripts/bench/growth.py [--hours 10] [--teams 10 --teams 100] [--seconds 20]

A run of emotion in lockstep over LSL, as long as asked for: replay, worker and judge are processes of their
own, and the decoder reports each second. The CPU time and the memory of the three are compared over five
minutes of data: those after the first minute, and the last ones. Then the judge of scripts/bench/judge.py,
with one team and with more: its CPU time a team.
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.judge.judge import Judge
from bci_stream.packet import Lead, Packet, SignalInfo
from bci_stream.wire.client import TeamClient
from bci_stream.wire.lsl import LslTransport
from decoders.worker import Worker
from replay.model.recording import ArrayBlock, Recording
from replay.player.plan import PlaybackPlan
from replay.player.player import Pace, Player
from scripts.bench.judge import Silent, run_pass
from scripts.bench.ratios import report_ratio
from tracks.registry import TRACKS

EMOTION = TRACKS["emotion"]
PACKETS_A_MINUTE = round(60 * EMOTION.rate / EMOTION.packet_samples)
FIRST, WINDOW = PACKETS_A_MINUTE, 5 * PACKETS_A_MINUTE
"""Packets that are not counted at the beginning, and those of a measurement."""
CLIP_S, BLOCK_START = 60, 242
STOP = threading.Event()


@dataclass(frozen=True)
class Usage:
    """CPU time in seconds and memory in bytes, of each process."""

    cpu_s: tuple[float, ...]
    memory: tuple[int, ...]

    @staticmethod
    def of(processes: Sequence[psutil.Process]) -> "Usage":
        times = [process.cpu_times() for process in processes]
        memory = tuple(process.memory_info().rss for process in processes)
        return Usage(tuple(each.user + each.system for each in times), memory)


class MeasuringDecoder:
    """Reports each second; takes the usage of all processes after certain packets."""

    def __init__(self, after: Sequence[int], others: Sequence[psutil.Process]) -> None:
        self._after = set(after)
        self._processes = [*others, psutil.Process()]
        self._count = 0
        self.taken: list[Usage] = []

    def start(self, info: SignalInfo) -> None:
        pass

    def step(self, packet: Packet) -> list[object]:
        self._count += 1
        if self._count in self._after:
            self.taken.append(Usage.of(self._processes))
        return [4] if self._count % 5 == 1 else []


def replay(contest: Contest, session: str, packets: int) -> None:
    n = packets * EMOTION.packet_samples
    one = np.zeros((1, len(EMOTION.leads)), dtype=np.float32)
    block = ArrayBlock(np.broadcast_to(one, (n, one.shape[1])), ((0, BLOCK_START),))
    leads = tuple(Lead(name) for name in EMOTION.leads)
    recording = Recording("S01", float(EMOTION.rate), leads, [block])
    step = CLIP_S * EMOTION.rate
    clips = [
        {"block": 0, "start": start, "end": start + step, "label": 4}
        for start in range(0, n - step, step)
    ]
    plan = PlaybackPlan(EMOTION, (recording,), ({"clips": clips},), live=False)
    transport = LslTransport(session=session)
    player = Player(
        transport, RealClock(transport.now), contest, plan, name="r",
        pace=Pace(lockstep=True), start_on="judge", stop=STOP,
    )  # fmt: skip
    player.play()


def judge(contest: Contest, session: str) -> None:
    judging = Judge(LslTransport(session=session), contest, Silent(), stop=STOP, may_start=bool)
    judging.judge(lambda j: j.all_over(), 60)


def measure_run(packets: int) -> list[Usage]:
    """The usage of replay, judge and worker before and after the first and the last WINDOW packets."""
    with tempfile.TemporaryDirectory() as folder:
        contest = Contest("growth", Path(folder), results="sealed")
        token = contest.keys.token("one")
        common = [sys.executable, __file__, "--packets", str(packets), "--folder", folder]
        others = [psutil.Popen([*common, "--role", role]) for role in ("replay", "judge")]
        after = (FIRST, FIRST + WINDOW, packets - 1 - WINDOW, packets - 1)
        decoder = MeasuringDecoder(after, others)
        try:
            client = TeamClient(
                LslTransport(session=Path(folder).name), contest.name, "one", token, stop=STOP,
                public_key=contest.keys.public_key(), sealed=True,
            )  # fmt: skip
            Worker(client, decoder, track="emotion", join_s=60, stop=STOP).run()
            for process in others:
                process.wait(60)
        finally:
            for process in others:
                if process.is_running():
                    process.kill()
                process.wait()
    return decoder.taken


def report_run(hours: float) -> None:
    taken = measure_run(round(hours * 60 * PACKETS_A_MINUTE))
    begun, first, before, last = taken
    for k, name in enumerate(("replay", "judge", "worker")):
        early = (first.cpu_s[k] - begun.cpu_s[k]) / WINDOW
        late = (last.cpu_s[k] - before.cpu_s[k]) / WINDOW
        print(
            f"{name}: {1e6 * early:.0f} us of CPU a packet at first, {1e6 * late:.0f} us after {hours:g} h; "
            f"{first.memory[k] / 1e6:.0f} and {last.memory[k] / 1e6:.0f} MB"
        )
    early_s, late_s = sum(first.cpu_s) - sum(begun.cpu_s), sum(last.cpu_s) - sum(before.cpu_s)
    beside = "in the first minutes of the run"
    report_ratio("growth", f"CPU of a packet after {hours:g} h", beside, [late_s / early_s])
    memory = sum(last.memory) / sum(first.memory)
    report_ratio("growth", f"memory after {hours:g} h", beside, [memory])


def report_teams(counts: Sequence[int], seconds: float) -> None:
    cost_s = {}
    for count in (1, *counts):
        with tempfile.TemporaryDirectory() as folder:
            cost_s[count] = run_pass("judge", Path(folder), count, seconds)
        print(f"{count} teams: {cost_s[count] / seconds:.1%} of a core")
    for count in counts:
        measure = f"CPU of the judge, {count} teams, a team"
        report_ratio("growth", measure, "1 team", [cost_s[count] / count / cost_s[1]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--teams", type=int, action="append", help="repeatable (10, 100)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a run with teams")
    parser.add_argument("--role", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--packets", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        contest = Contest("growth", given.folder, results="sealed")
        if given.role == "replay":
            replay(contest, given.folder.name, given.packets)
        else:
            judge(contest, given.folder.name)
        return
    if given.hours * 60 * PACKETS_A_MINUTE < FIRST + 2 * WINDOW + 1:
        parser.error(f"--hours {given.hours:g}: a quarter of an hour is the least")
    report_run(given.hours)
    report_teams(given.teams or (10, 100), given.seconds)


if __name__ == "__main__":
    main()
