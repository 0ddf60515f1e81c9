"""Other LSL tools take our streams as they are."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.network import config

LEADS = (
    Lead("C3", "EEG", "microvolts", (-0.06, 0.0, 0.08)),
    Lead("C4", "EEG", "microvolts", (0.06, 0.0, 0.08)),
    Lead("HEOR", "EOG", "microvolts"),
)
RATE = 250.0
READER = """
import json, sys, time
from mne_lsl.stream import StreamLSL
stream = StreamLSL(bufsize=2, name=sys.argv[1], source_id=sys.argv[2])
stream.connect(acquisition_delay=0.05, timeout=30)
while stream.n_new_samples < 50:
    time.sleep(0.02)
data, _ = stream.get_data(winsize=0.2)
print(json.dumps({
    "names": stream.ch_names,
    "types": stream.get_channel_types(),
    "units": [int(multiplier) for _, multiplier in stream.get_channel_units()],
    "rate": stream.info["sfreq"],
    "counter": data[0][data[3] == 5.0].tolist(),
}))
stream.disconnect()
"""


@pytest.mark.lsl
@pytest.mark.skipif(not importlib.util.find_spec("mne_lsl"), reason="mne-lsl is not installed")
def test_mne_lsl_reads_names_types_units_and_samples(
    lsl_transport, contest, tmp_path: Path
) -> None:
    """In a process of its own: it brings its own liblsl, which reads its settings from a file."""
    settings = tmp_path / "lsl_api.cfg"
    settings.write_text(config("machine", os.environ["BCI_LSL_SESSION"]))
    spec = names.signal_stream(contest.name, "r", RATE, LEADS)
    outlet = lsl_transport.sample_outlet(spec)
    stop = threading.Event()
    sent = np.zeros((10, 4), dtype=np.float32)
    sent[:, 3] = 5.0

    def push() -> None:
        count = 0
        while not stop.wait(0.02):
            sent[:, 0] = np.arange(count, count + 10)
            outlet.push(sent, lsl_transport.now())
            count += 10

    pusher = threading.Thread(target=push, daemon=True)
    pusher.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", READER, spec.name, spec.source_id],
            env={**os.environ, "LSLAPICFG": str(settings)},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    finally:
        stop.set()
        pusher.join()
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["names"] == ["C3", "C4", "HEOR", "TRIGGER"]
    assert seen["types"] == ["eeg", "eeg", "eog", "stim"]
    assert seen["units"][:3] == [-6, -6, -6]
    assert seen["rate"] == RATE
    assert len(seen["counter"]) > 10
    assert set(np.diff(seen["counter"])) == {1.0}
