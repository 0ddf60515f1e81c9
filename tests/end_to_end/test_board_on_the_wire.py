"""A BrainFlow board put on LSL by `bci-replay start`, taken from there again as `lsl:`, with marks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

CONSUMER = """
import json, sys
from bci_stream.wire.lsl import LslTransport
from replay.devices.registry import open_device
from replay.devices.manual_triggers import send_trigger

session, name, enough, mark_at = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
transport = LslTransport("machine", session)
source = open_device("lsl", name, {"wait_s": "60", "reconnect_s": "10"}, transport)
(live,) = source.sessions()
starts, stamps, triggers, first = [], [], [], []
for packet in live.packets(10):
    starts.append(packet.start)
    stamps.append(packet.stamp)
    values = packet.samples[:, 0].tolist()
    first += values
    triggers += [(packet.start + offset, code, values[offset]) for offset, code in packet.triggers]
    if len(starts) == mark_at:
        send_trigger(123, "board")
    if len(first) >= enough and (triggers or not mark_at):
        source.close()
kinds = [(lead.name, lead.kind, lead.unit) for lead in live.leads]
print(json.dumps([live.rate, kinds, starts, stamps, triggers, first]))
"""


def on_the_wire(folder: Path, run: Path, uri: str, enough: int, mark_at: int) -> list:
    session = f"board-{os.getpid()}-{folder.name}"
    env = os.environ | {
        "BCI_HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(run),
        "PYTHONPATH": str(ROOT),
    }
    command = ["start", uri, "--name", "board", "--foreground", "--start", "consumer"]
    replay = subprocess.Popen(
        [sys.executable, "-m", "replay", *command, "--wait", "60", "--lsl-session", session],
        env=env, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    arguments = [session, "default-board-signal", str(enough), str(mark_at)]
    try:
        done = subprocess.run(
            [sys.executable, "-c", CONSUMER, *arguments],
            env=env, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
    finally:
        replay.terminate()
        _, errors = replay.communicate(timeout=30)
    assert done.returncode == 0, f"{done.stderr}\n{errors}"
    return json.loads(done.stdout)


@pytest.mark.lsl
def test_the_synthetic_board_has_names_units_stamps_and_a_mark_from_outside(
    tmp_path, runtime_folder
):
    rate, leads, starts, stamps, triggers, _ = on_the_wire(
        tmp_path, runtime_folder, "brainflow:SYNTHETIC", enough=300, mark_at=10
    )
    assert rate == 250
    assert leads[:2] == [["Fz", "EEG", "microvolts"], ["C3", "EEG", "microvolts"]]
    assert len(leads) == 16
    assert starts == sorted(starts)
    assert (np.diff(stamps) > 0).all()
    assert [code for _, code, _ in triggers] == [123]
    assert triggers[0][0] >= 90


@pytest.mark.lsl
def test_a_playback_file_arrives_sample_for_sample_with_its_marks(tmp_path, runtime_folder):
    from brainflow.data_filter import DataFilter

    from replay.devices.boards import find_board

    board, n = find_board("SYNTHETIC"), 3000
    rows = np.zeros((32, n))
    rows[list(board.signal_rows)] = np.arange(1, n + 1)
    rows[board.package_row] = np.arange(n) % 256
    rows[board.stamp_row] = 1.7e9 + np.arange(n) / 250
    rows[board.marker_row, ::50] = np.arange(1, n // 50 + 1)
    path = tmp_path / "recorded.csv"
    DataFilter.write_file(rows, str(path), "w")
    uri = f"brainflow:PLAYBACK_FILE?file={path}&master_board=SYNTHETIC"
    _, _, _, _, triggers, first = on_the_wire(tmp_path, runtime_folder, uri, enough=400, mark_at=0)
    values = [int(value) for value in first if value]  # the handshake's row of zeros came first
    assert values == list(range(values[0], values[0] + len(values)))
    assert len(triggers) >= 7
    assert all(value == 50 * (code - 1) + 1 for _, code, value in triggers)
