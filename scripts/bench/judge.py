"""A hundred teams at once in real time: is any report lost or misjudged, and what does judging cost?

    python scripts/bench/judge.py [--teams 100] [--seconds 20]

One process plays an erp recording in real time, one simulates the teams (each has its own results stream
and reports once a second), one judges. A second pass puts a bare reader of the same streams in the
judge's place; the figure is the judge's CPU time over the bare reader's.
"""

import argparse
import json
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
from bci_stream.judge.arrivals import READ_S
from bci_stream.judge.judge import Judge
from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.groups import StreamGroup
from bci_stream.wire.handshake import wait_for_stream
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.messages import (
    Done,
    Hello,
    Join,
    Offer,
    PacketNote,
    Ready,
    ReportMessage,
    SessionStart,
    read_control,
)
from bci_stream.wire.results import ResultsPublisher
from replay.model.recording import ArrayBlock, Recording
from replay.player.plan import PlaybackPlan
from replay.player.player import Pace, Player
from scripts.bench.ratios import report_ratio
from tracks.registry import TRACKS

STOP = threading.Event()
PACKETS_A_SECOND = 25


class Silent:
    def team(self, *_: object, **__: object) -> None:
        pass

    def alarm(self, *_: object) -> None:
        pass

    def event(self, *_: object) -> None:
        pass


def replay(contest: Contest, transport: LslTransport, seconds: float, start_on: str) -> None:
    data = np.zeros((int(seconds * 250), 8), dtype=np.float32)
    leads = tuple(Lead(f"E{n}") for n in range(8))
    recording = Recording("S01", 250.0, leads, [ArrayBlock(data, ((5, 242), (20, 101)))])
    program = PlaybackPlan(TRACKS["erp"], (recording,), ({"blocks": [["A"]]},), live=False)
    player = Player(transport, RealClock(transport.now), contest, program, name="r",
                    pace=Pace(lockstep=False), start_on=start_on, stop=STOP, wait_s=120)  # type: ignore[arg-type]  # fmt: skip
    player.play()


def teams(contest: Contest, transport: LslTransport, count: int) -> None:
    """All teams in one process: they read one control stream, and each has its own results stream."""
    publishers = [
        ResultsPublisher(
            transport,
            contest.name,
            f"team{k:03d}",
            contest.keys.token(f"team{k:03d}"),
            sealed=contest.sealed,
        )
        for k in range(count)
    ]
    found = wait_for_stream(
        transport, names.source_id(contest.name, "control", "r"), "the replay", 60, STOP
    )
    control = transport.text_inlet(found, 10)
    started, finished, sent_at = False, False, 0.0
    while not finished:
        if not started and transport.now() - sent_at > 1.0:
            sent_at = transport.now()
            for publisher in publishers:
                for kind in (Hello,) if not publisher.run else (Join, Ready):
                    publisher.send(kind)
        for text, _ in control.pull(0.1):
            message = read_control(text)
            if isinstance(message, Offer):
                for publisher in publishers:
                    publisher.run = message.run
            started = started or isinstance(message, SessionStart)
            if isinstance(message, PacketNote):
                finished = message.finish
                for k in range(message.i % PACKETS_A_SECOND, count, PACKETS_A_SECOND):
                    publishers[k].send(ReportMessage, result=[k, message.i])
    for publisher in publishers:
        publisher.send(Done)
    time.sleep(6)  # the outlets stay until the judge has taken everything


def judge(contest: Contest, transport: LslTransport, count: int) -> float:
    judging = Judge(transport, contest, Silent(), stop=STOP, may_start=lambda t: len(t) >= count)
    cpu = [0.0]

    def until(j: Judge) -> bool:
        if not cpu[0] and any(session.has_started for session in j.sessions):
            cpu[0] = time.process_time()
        return j.all_over()

    judging.judge(until, 120)
    return time.process_time() - cpu[0]


def bare(contest: Contest, transport: LslTransport, _count: int) -> float:
    """Reads the same streams as often as the judge does, and throws away what it reads."""
    results = StreamGroup(transport, contest.name, "results")
    control = StreamGroup(transport, contest.name, "control")
    started, cpu, discovered_at = False, 0.0, 0.0
    while True:
        if transport.now() - discovered_at > 0.25:
            discovered_at = transport.now()
            results.look()
            control.look()
        for uid, *_ in results.pull():
            results.accept(uid)
        for uid, _, text, _ in control.pull():
            control.accept(uid)
            if not started and '"packet"' in text:
                started, cpu = True, time.process_time()
            if '"finish":true' in text:
                return time.process_time() - cpu
        time.sleep(READ_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teams", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--role", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--start-on", default="judge")
    options = parser.parse_args()
    if not options.role:
        compare(options.teams, options.seconds)
        return
    transport = LslTransport(session=options.folder.name)
    contest = Contest("load", options.folder, results="sealed")
    if options.role == "replay":
        replay(contest, transport, options.seconds, options.start_on)
    elif options.role == "teams":
        teams(contest, transport, options.teams)
    else:
        watch = judge if options.role == "judge" else bare
        print(json.dumps(watch(contest, transport, options.teams)))


def run_pass(watcher: str, folder: Path, count: int, seconds: float) -> float:
    Contest("load", folder).keys.contest_key()
    start_on = "judge" if watcher == "judge" else "team"
    common = [sys.executable, __file__, "--teams", str(count), "--seconds", str(seconds),
              "--folder", str(folder), "--start-on", start_on]  # fmt: skip
    watching = subprocess.Popen([*common, "--role", watcher], stdout=subprocess.PIPE, text=True)
    others = [subprocess.Popen([*common, "--role", role]) for role in ("replay", "teams")]
    out, _ = watching.communicate(timeout=300)
    for process in others:
        process.kill()
        process.wait()
    return float(json.loads(out.splitlines()[-1]))


def compare(count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        judged_s = run_pass("judge", Path(one), count, seconds)
        wrong, reports, late, favoured = check(Path(one), count, seconds)
        bare_s = run_pass("bare", Path(two), count, seconds)
    print(
        f"{count} teams, {seconds:g} s in real time: {wrong} logs with a lost report or another order; of "
        f"{reports} reports {late} arrived after the grace, {favoured} were charged a packet less, because "
        "one before theirs had left late"
    )
    print(
        f"CPU of the judge {judged_s / seconds:.1%}, of a bare reader {bare_s / seconds:.1%} of a core"
    )
    measure = f"CPU of the judge, {count} teams"
    report_ratio("judge", measure, "bare reader", [judged_s / bare_s], "at most 2")


def check(folder: Path, count: int, seconds: float) -> tuple[int, int, int, int]:
    """(logs that lack a report or have them in another order, reports, those that came late, those favoured).

    A report is made when its packet is there, so with a grace of one packet it stands right behind the
    packet or the one before it. One that arrived later is judged as late, which is right; one stands further
    ahead if the packet before its own left late, since the grace counts from when a packet left.
    """
    wrong = reports = late = favoured = 0
    logs = sorted((folder / "runs").glob("*.jsonl"))
    packets = int(np.ceil(seconds * PACKETS_A_SECOND))
    for k, path in enumerate(logs):
        expected = [[k, i] for i in range(k % PACKETS_A_SECOND, packets, PACKETS_A_SECOND)]
        behind = []
        seen = 0
        for event in (json.loads(line) for line in path.read_text().splitlines()):
            seen += event["kind"] == "packet"
            if event["kind"] == "report":
                behind.append((event["result"], seen - 1 - event["result"][1]))
        wrong += [result for result, _ in behind] != expected
        reports += len(behind)
        late += sum(d > 0 for _, d in behind)
        favoured += sum(d < -1 for _, d in behind)
    return wrong + abs(count - len(logs)), reports, late, favoured


if __name__ == "__main__":
    main()
