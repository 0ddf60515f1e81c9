"""How exactly packets leave, and at what cost: our player against MNE-LSL's PlayerLSL, in one run.

    python scripts/bench/pacing.py [--seconds 15] [--turns 4] [--most 16] [--only ours]
    python scripts/bench/pacing.py --minutes 10 --turns 1 --most 1   # for the drift

Both play the same 65 channels at 1 kHz in packets of 40 samples to one consumer in another process, in
turns; the errors of all turns count together. The host of a virtual machine may take its cores away for
milliseconds, which changes the figures of either player. The kernel counts that time (steal): a turn in which
it is more than half a percent of a core for either player is marked and repeated, until there are --turns
quiet turns or --most turns in all.

The error of a push is its time minus its packet's time stamp, which is the player's own deadline (MNE-LSL
stamps a packet with its end and pushes it at its beginning: one packet length is subtracted). Drift: the
slope of the push times against n packets of 40 ms each, which does not depend on the stamps; fitted to the
medians of the run's tenths, because a busy machine makes single packets late. CPU is that of the playing
process: `CPU` from its first packet to its last, `whole` from its start, with opening the streams and waiting
for the consumer (MNE-LSL does not wait: its first packet is its start).
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
from typing import Any

import numpy as np

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psutil

from scripts.bench.ratios import report_ratio

RATE, LEADS, PACKET = 1000.0, 64, 40

QUIET_SHARE = 0.005
"""Largest share of a core that the host may take away in a turn that counts."""


class Pushes:
    """Time and lateness of each push, and the CPU time of the process at the first and the last."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.late: list[float] = []
        self._first_cpu = self._cpu = 0.0

    def record(self, now: float, stamp: float) -> None:
        self.times.append(now)
        self.late.append(now - stamp)
        self._cpu = time.process_time()
        if len(self.times) == 1:
            self._first_cpu = self._cpu

    def cpu(self) -> float:
        return (self._cpu - self._first_cpu) / (self.times[-1] - self.times[0])


def play_ours(seconds: float) -> tuple[Pushes, float]:
    import pylsl

    from bci_stream.clock import RealClock
    from bci_stream.contest.contest import Contest
    from bci_stream.packet import Lead
    from bci_stream.wire.lsl import LslTransport
    from replay.model.recording import ArrayBlock, Recording
    from replay.player.plan import PlaybackPlan
    from replay.player.player import Pace, Player

    pushed = Pushes()
    push = pylsl.StreamOutlet.push_chunk

    def timed(self: object, samples: object, stamp: float) -> None:
        now = time.monotonic()
        push(self, samples, stamp)
        if len(samples) == PACKET:  # type: ignore[arg-type]  # no probe, no warm-up
            pushed.record(now, stamp)

    pylsl.StreamOutlet.push_chunk = timed
    transport = LslTransport(session=os.environ["BENCH_SESSION"])
    data = np.zeros((int(seconds * RATE), LEADS), dtype=np.float32)
    leads = tuple(Lead(f"E{n}") for n in range(LEADS))
    recording = Recording("S01", RATE, leads, [ArrayBlock(data, ())])
    program = PlaybackPlan(None, (recording,), (None,), live=False)
    with tempfile.TemporaryDirectory() as folder:
        player = Player(
            transport,
            RealClock(transport.now),
            Contest("bench", Path(folder)),
            program,
            name="r",
            pace=Pace(lockstep=False),
            start_on="consumer",
            stop=threading.Event(),
        )
        begun, begun_cpu = time.monotonic(), time.process_time()
        player.play()
        cpu = (time.process_time() - begun_cpu) / (time.monotonic() - begun)
    return pushed, cpu


def play_mne_lsl(seconds: float) -> tuple[Pushes, float]:
    import mne
    import mne_lsl.player.player_lsl as module
    from mne_lsl.player import PlayerLSL

    names = [f"E{n}" for n in range(LEADS)] + ["TRIGGER"]
    info = mne.create_info(names, RATE, ["eeg"] * LEADS + ["stim"])
    raw = mne.io.RawArray(np.zeros((LEADS + 1, int((seconds + 5) * RATE))), info, verbose="ERROR")
    pushed = Pushes()
    outlet_class = module.StreamOutlet
    push = outlet_class.push_chunk

    def timed(self: object, data: object, timestamp: float) -> None:
        now = time.monotonic()
        push(self, data, timestamp=timestamp)
        pushed.record(now, timestamp)

    outlet_class.push_chunk = timed
    player = PlayerLSL(raw, chunk_size=PACKET, name="bench", annotations=False)
    player.start()
    begun = time.process_time()
    time.sleep(seconds)
    cpu_s = time.process_time() - begun
    player.stop()
    return pushed, cpu_s / seconds


PLAYERS = {"ours": play_ours, "mne-lsl": play_mne_lsl}


def figures(pushed: Pushes, whole_cpu: float) -> dict[str, Any]:
    """Errors in seconds; the first second, in which connections are made, is left out."""
    late = np.array(pushed.late[25:])
    late -= round(float(np.median(late)) / (PACKET / RATE)) * PACKET / RATE
    return {
        "errors": np.abs(late).tolist(),
        "drift": drift_us_a_minute(np.array(pushed.times[25:])),
        "cpu": pushed.cpu() * 100,
        "whole": whole_cpu * 100,
    }


def pooled(turns: list[dict[str, Any]]) -> dict[str, float]:
    errors = np.concatenate([turn["errors"] for turn in turns]) * 1e6
    p50, p90, p99, worst = np.percentile(errors, (50, 90, 99, 100))
    names = ("drift", "cpu", "whole", "stolen")
    means = {name: float(np.mean([turn[name] for turn in turns])) for name in names}
    return {"packets": len(errors), "p50": p50, "p90": p90, "p99": p99, "worst": worst, **means}


def drift_us_a_minute(times: np.ndarray) -> float:
    """The slope of the push times against the ideal ones: the line through the tenths' medians."""
    ideal = np.arange(len(times)) * PACKET / RATE
    tenths = np.array_split(np.arange(len(times)), 10)
    at = [np.median(ideal[tenth]) for tenth in tenths]
    off = [np.median(times[tenth] - times[0] - ideal[tenth]) for tenth in tenths]
    return float(np.polyfit(at, off, 1)[0]) * 60e6


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Run a player in its own process, and receive its stream in this one."""
    from bci_stream.errors import LostError
    from bci_stream.wire.lsl import LslTransport
    from bci_stream.wire.network import config

    session = f"bench-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "lsl_api.cfg"
        settings.write_text(config("machine", session))
        env = {**os.environ, "BENCH_SESSION": session, "LSLAPICFG": str(settings)}
        command = [sys.executable, __file__, "--player", name, "--seconds", str(seconds)]
        begun, stolen_s = time.monotonic(), stolen_so_far_s()
        player = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        transport = LslTransport(session=session)
        watch = transport.watch("")
        while not (found := [f for f in watch.found() if f.name.startswith("bench")
                             and not f.name.endswith(("control", "truth", "markers", "codes"))]):  # fmt: skip
            time.sleep(0.05)
        inlet = transport.sample_inlet(found[0], 10)
        try:
            while player.poll() is None:
                inlet.pull(PACKET, 0.2)
        except LostError:
            pass
        watch.close()
        out, _ = player.communicate(timeout=30)
        stolen = (stolen_so_far_s() - stolen_s) / (time.monotonic() - begun)
    figure: dict[str, Any] = json.loads(out.splitlines()[-1])
    return {**figure, "stolen": stolen * 100}


def stolen_so_far_s() -> float:
    """Time that the host took from all cores so far, in seconds; 0 where the kernel does not count it."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--minutes", type=float, help="Instead of --seconds.")
    parser.add_argument("--turns", type=int, default=4, help="Quiet turns that are wanted.")
    parser.add_argument("--most", type=int, default=16, help="Turns at the most, quiet or not.")
    parser.add_argument("--only", choices=PLAYERS, help="One player alone.")
    parser.add_argument("--player", choices=PLAYERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    seconds = options.minutes * 60 if options.minutes else options.seconds
    if options.player:
        print(json.dumps(figures(*PLAYERS[options.player](seconds))))
        return
    names = [options.only] if options.only else list(PLAYERS)
    turns: list[dict[str, dict[str, Any]]] = []
    while sum(map(is_quiet, turns)) < options.turns and len(turns) < options.most:
        turn = {name: measure(name, seconds) for name in names}
        turns.append(turn)
        for name in names:
            print_row(
                name, pooled([turn[name]]), "" if is_quiet(turn) else "not quiet: does not count"
            )
    quiet = [turn for turn in turns if is_quiet(turn)]
    print(
        f"all {len(turns)} turns, of which {len(quiet)} are quiet (the others are left out if there are any):"
    )
    print_rows(names, quiet or turns)


def is_quiet(turn: dict[str, dict[str, Any]]) -> bool:
    return all(figure["stolen"] <= QUIET_SHARE * 100 for figure in turn.values())


def print_rows(names: list[str], turns: list[dict[str, dict[str, Any]]]) -> None:
    rows = {name: pooled([turn[name] for turn in turns]) for name in names}
    for name, row in rows.items():
        print_row(name, row, "together")
    if len(rows) == len(PLAYERS):
        compare([{name: pooled([turn[name]]) for name in names} for turn in turns])


def print_row(name: str, row: dict[str, float], what: str) -> None:
    print(
        f"{name:8} {row['packets']:.0f} packets: p50 {row['p50']:.1f} us  p90 {row['p90']:.1f} us  "
        f"p99 {row['p99']:.1f} us  worst {row['worst']:.0f} us  drift {row['drift']:+.2f} us/min  "
        f"CPU {row['cpu']:.2f} % (whole {row['whole']:.2f} %)  stolen {row['stolen']:.2f} %  {what}",
        flush=True,
    )


def compare(turns: list[dict[str, dict[str, float]]]) -> None:
    for figure, words, asked in (
        ("p50", "p50 of a push's error", "at most 1/50"),
        ("p90", "p90 of a push's error", "at most 1/50"),
        ("cpu", "CPU of the player", "at most 0.6"),
    ):
        ratios = [turn["ours"][figure] / turn["mne-lsl"][figure] for turn in turns]
        report_ratio("pacing", words, "MNE-LSL PlayerLSL", ratios, asked)


if __name__ == "__main__":
    main()
