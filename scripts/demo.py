"""`make demo`: a contest of all five tracks on synthetic recordings, in lockstep over LSL.

Trains the decoders that need it on synthetic training sets, lets each compete with chance, and ends
with the leaderboard. Everything is written to .demo/.
"""

import os
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path

from rich.console import Console

from bci_stream.cli import open_wire, stop_on_signals
from bci_stream.contest.contest import load_contest
from bci_stream.judge.contest_run import ContestEntry, Wire
from bci_stream.judge.results_commands import write_report
from bci_stream.judge.run_command import play

FOLDER = Path(__file__).parents[1] / ".demo"
SEED = 5

TRAINING = {
    "mi": [f"synthetic:mi?set=train&subjects=1&blocks=2&seed={SEED}&difficulty=0.1"],
    "turing": [f"synthetic:turing?set=train&subjects=1&blocks=5&seed={SEED}&difficulty=0.1"],
    "emotion": [f"synthetic:emotion?set=train&subjects=6&pace=0.1&seed={SEED}&difficulty=0.1"],
    "ecog": [f"synthetic:ecog?set=calibration&subjects=1&seed={SEED}&difficulty=0.1"],
}
"""What each decoder learns from; erp needs no training at all."""

TEST = {
    "mi": f"synthetic:mi?subjects=1&blocks=1&seed={SEED}&difficulty=0.1",
    "turing": f"synthetic:turing?subjects=1&blocks=2&seed={SEED}&difficulty=0.1",
    "emotion": f"synthetic:emotion?subjects=1&pace=0.1&seed={SEED}&difficulty=0.1",
    "ecog": f"synthetic:ecog?subjects=1&blocks=1&trials=2&seconds=30&seed={SEED}&difficulty=0.1",
    "erp": f"synthetic:erp?subjects=1&trials=16&seed={SEED}&difficulty=0.5",
}

DECODERS = {
    "mi": "mi-riemann",
    "turing": "turing-phase",
    "emotion": "emotion-de",
    "ecog": "ecog-ridge",
    "erp": "erp-bayes",
}


def main() -> None:
    console = Console(stderr=True)
    begun = time.monotonic()
    stop = stop_on_signals()
    contest_file = write_contest_file()
    models = train_all(console, stop)
    entries = [
        ContestEntry(decoder, track, (TEST[track],), arguments(decoder, models.get(track)))
        for track, ours in DECODERS.items()
        for decoder in (ours, f"{track}-chance")
    ]
    session = f"demo-{secrets.token_hex(3)}"
    wire = Wire(open_wire("machine", session), "machine", session)
    contest = load_contest(contest_file)
    outcomes = play(wire, contest, contest_file, entries, jobs=2, stop=stop)
    logs = [outcome.log for outcome in outcomes if outcome.log is not None]
    page = FOLDER / "report.html"
    if logs:
        write_report(logs, page, title="Demo contest")
        console.print(f"page:     {page}")
    console.print(f"took {time.monotonic() - begun:.0f} s; score any log again: "
                  f".venv/bin/bci-judge score {logs[0] if logs else 'LOG'}")  # fmt: skip
    if stop.is_set() or any(outcome.reason != "finished" for outcome in outcomes):
        sys.exit(1)


def write_contest_file() -> Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / "contest.toml"
    # An open contest: in one with keys synthetic people come from the key, and no training set has them.
    path.write_text('name = "demo"\nresults = "signed"\n')
    return path


def arguments(decoder: str, model: Path | None) -> tuple[str, ...]:
    trained = ("--model", str(model)) if model and not decoder.endswith("chance") else ()
    return ("--decoder", decoder, *trained)


def train_all(console: Console, stop: threading.Event) -> dict[str, Path]:
    """Each in a process of its own, two at a time: training is what takes the longest."""
    models = {track: FOLDER / f"{track}.model.npz" for track in TRAINING}
    waiting = list(models)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with console.status("") as status:
            while (waiting or running) and not stop.wait(0.1):
                while waiting and len(running) < max(1, min(2, os.cpu_count() or 1)):
                    track = waiting.pop(0)
                    running[track] = start_training(track, models[track])
                status.update(f"training on synthetic recordings: {', '.join(running)}")
                for track, process in list(running.items()):
                    if process.poll() is not None:
                        del running[track]
                        finish_training(track, process.returncode, console)
    finally:
        for process in running.values():
            process.terminate()
            process.wait()
    if stop.is_set():
        sys.exit("the demo was stopped")
    return models


def start_training(track: str, model: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "decoders", "train", "--track", track, "--no-validation"]
    log = (FOLDER / f"train-{track}.log").open("wb")
    with log:
        return subprocess.Popen(
            [*command, *TRAINING[track], "--out", str(model)], stdout=log, stderr=log
        )


def finish_training(track: str, code: int, console: Console) -> None:
    if code:
        console.print((FOLDER / f"train-{track}.log").read_text())
        sys.exit(f"training for {track} failed")
    console.print(f"trained:  {track} on {TRAINING[track][0]}")


if __name__ == "__main__":
    main()
