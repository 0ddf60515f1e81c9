"""How long after it left a packet is with the decoder: our client beside a bare pylsl pull and StreamLSL.

    python scripts/bench/delivery.py [--seconds 20] [--turns 3]

One process plays 64 leads and TRIGGER at 250 Hz in packets of 40 ms in real time; three consumers in
processes of their own receive it at the same time: a team's worker, which verifies the signature of each
note and the digest of each packet, with a decoder that only notes the time;
a pylsl inlet that pulls packets, and MNE-LSL's StreamLSL, asked twice a millisecond for new samples. A lead
counts the packets. The delay of a packet is the time of its arrival less that of its push; the first second
is left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pylsl

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.packet import Lead, Packet, SignalInfo
from bci_stream.wire.client import TeamClient
from bci_stream.wire.lsl import LslTransport, config
from decoders.worker import Worker
from replay.model.recording import ArrayBlock, Recording
from replay.player.plan import PlaybackPlan
from replay.player.player import Pace, Player
from scripts.bench.ratios import report_ratio
from tracks.registry import TRACKS

RATE, PACKET, LEADS = 250, 10, 64
CONTEST = "delivery"
WAIT_S = 60.0
CONSUMERS = ("ours", "bare", "streamlsl")


def replay(folder: Path, session: str, seconds: float) -> None:
    """Play; prints the time at which each packet was pushed, by its number."""
    pushed: dict[int, float] = {}
    push = pylsl.StreamOutlet.push_chunk

    def timed(self: pylsl.StreamOutlet, samples: np.ndarray, stamp: float) -> None:
        if len(samples) == PACKET and samples.shape[1] == LEADS + 1:
            pushed.setdefault(int(samples[0, 0]), pylsl.local_clock())
        push(self, samples, stamp)

    pylsl.StreamOutlet.push_chunk = timed
    transport = LslTransport(session=session)
    n = int(seconds * RATE)
    data = np.zeros((n, LEADS), dtype=np.float32)
    data[:, 0] = np.arange(n) // PACKET + 1
    leads = tuple(Lead(name) for name in TRACKS["erp"].leads[:LEADS])
    recording = Recording("S01", RATE, leads, [ArrayBlock(data, ((0, 242),))])
    plan = PlaybackPlan(TRACKS["erp"], (recording,), ({"blocks": [[]]},), live=False)
    player = Player(
        transport, RealClock(transport.now), Contest(CONTEST, folder), plan, name="r",
        pace=Pace(lockstep=False), start_on="team", stop=threading.Event(), wait_s=WAIT_S,
    )  # fmt: skip
    player.play()
    print(json.dumps(pushed))


class ArrivalTimes:
    """A decoder that notes when each packet arrives."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}

    def start(self, info: SignalInfo) -> None:
        pass

    def step(self, packet: Packet) -> list[object]:
        self.times[int(packet.samples[0, 0])] = pylsl.local_clock()
        return []


def ours(folder: Path, session: str) -> dict[int, float]:
    contest = Contest(CONTEST, folder)
    decoder, stop = ArrivalTimes(), threading.Event()
    client = TeamClient(
        LslTransport(session=session), CONTEST, "alice", contest.keys.token("alice"), stop=stop,
        public_key=contest.keys.public_key(),
    )  # fmt: skip
    Worker(client, decoder, track="erp", join_s=WAIT_S, stop=stop).run()
    return decoder.times


def bare(session: str) -> dict[int, float]:
    pylsl.set_config_content(config("machine", session))
    (found,) = pylsl.resolve_bypred("name='delivery-r-signal' and type='EEG'", 1, WAIT_S)
    inlet = pylsl.StreamInlet(found)
    inlet.open_stream(WAIT_S)
    print("open", flush=True)
    times: dict[int, float] = {}
    samples = np.empty((PACKET, LEADS + 1), dtype=np.float32)
    while True:
        _, stamps = inlet.pull_chunk(2.0, PACKET, dest_obj=samples)
        if stamps:
            times[int(samples[len(stamps) - 1, 0])] = pylsl.local_clock()
        elif times:
            return times


def streamlsl() -> dict[int, float]:
    from mne_lsl.stream import StreamLSL

    stream = StreamLSL(2.0, name="delivery-r-signal", stype="EEG").connect(
        acquisition_delay=0.001, timeout=WAIT_S
    )
    print("open", flush=True)
    times: dict[int, float] = {}
    last = time.monotonic()
    while time.monotonic() - last < 2.0 or not times:
        if stream.n_new_samples:
            data, _ = stream.get_data()
            number = int(data[0, -1])
            times.setdefault(number, pylsl.local_clock())
            last = time.monotonic()
        time.sleep(0.0005)
    stream.disconnect()
    return times


def run_turn(seconds: float) -> dict[str, float]:
    """The median delay at each consumer, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder).name
        settings = Path(folder) / "lsl_api.cfg"
        settings.write_text(config("machine", session))
        env = {**os.environ, "LSLAPICFG": str(settings)}
        common = [sys.executable, __file__, "--folder", folder, "--seconds", str(seconds)]

        def start(role: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [*common, "--role", role], stdout=subprocess.PIPE, text=True, env=env
            )

        processes = {role: start(role) for role in ("replay", "bare", "streamlsl")}
        try:
            for role in ("bare", "streamlsl"):  # both have it open before the team lets it begin
                if processes[role].stdout.readline() != "open\n":  # type: ignore[union-attr]
                    raise SystemExit(f"{role} found no stream to open")
            processes["ours"] = start("ours")
            found = {}
            for role, process in processes.items():
                out, _ = process.communicate(timeout=seconds + 2 * WAIT_S)
                found[role] = {int(k): t for k, t in json.loads(out.splitlines()[-1]).items()}
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    pushed = found.pop("replay")
    first = RATE // PACKET
    return {
        role: float(
            np.median([t - pushed[k] for k, t in times.items() if k > first and k in pushed])
        )
        for role, times in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--role", default="")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.role == "replay":
        replay(given.folder, given.folder.name, given.seconds)
    elif given.role == "ours":
        print(json.dumps(ours(given.folder, given.folder.name)))
    elif given.role == "bare":
        print(json.dumps(bare(given.folder.name)))
    elif given.role == "streamlsl":
        print(json.dumps(streamlsl()))
    else:
        turns = [run_turn(given.seconds) for _ in range(given.turns)]
        for turn in turns:
            print("  ".join(f"{role} {1e3 * delay:.2f} ms" for role, delay in turn.items()))
        measure = "p50 of a packet's delay at the decoder"
        ratios = [turn["ours"] / turn["bare"] for turn in turns]
        report_ratio("delivery", measure, "bare pylsl pull", ratios, "at most 1.3")
        ratios = [turn["ours"] / turn["streamlsl"] for turn in turns]
        report_ratio("delivery", measure, "MNE-LSL StreamLSL", ratios, "at most 0.5")


if __name__ == "__main__":
    main()
