"""What the three command lines share."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bci_stream.cli import TRACK_NAMES
from tracks.registry import TRACKS

ROOT = Path(__file__).parents[1]
WAITING = """
import sys
from bci_stream.cli import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
while not stop.wait(0.0001):  # nearly always inside the event's own lock
    pass
print("stopped")
"""


def test_the_tracks_are_those_of_the_rulebook() -> None:
    assert tuple(TRACKS) == TRACK_NAMES


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("attempt", range(5))
def test_a_signal_never_waits_for_the_lock_of_the_event_that_it_sets(number, attempt) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "stopped\n")


@pytest.mark.parametrize("module", ["replay.cli", "decoders.cli", "bci_stream.judge.cli"])
def test_help_needs_no_heavy_import(module: str) -> None:
    heavy = (
        "numpy",
        "scipy",
        "mne",
        "sklearn",
        "pyriemann",
        "matplotlib",
        "aiohttp",
        "brainflow",
        "pylsl",
    )
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
