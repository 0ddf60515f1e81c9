"""Clients of other labs on our outlets: MNE-LSL, ezmsg-lsl and timeflux read names, types, units, positions,
samples and markers.

A client is looked for in this Python, and in those that the environment variable BCI_LSL_CLIENTS lists:
timeflux needs another pylsl than this project.
"""

import json
import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.lsl import config

pytestmark = pytest.mark.lsl

LEADS = (
    Lead("C3", "EEG", "microvolts", (-0.06, 0.01, 0.08)),
    Lead("HEOR", "EOG", "microvolts"),
)
RATE = 100.0
PUSH_S = 0.05
DEADLINE_S = 60.0

MNE_LSL = """
import json, sys, time
import numpy as np
from mne_lsl.stream import StreamLSL
signal, codes = sys.argv[1:3]
stream = StreamLSL(bufsize=2, name=signal).connect(acquisition_delay=0.05, timeout=30)
marker = StreamLSL(bufsize=20, name=codes).connect(acquisition_delay=0.05, timeout=30)
while stream.n_new_samples < 50 or marker.n_new_samples < 1:
    time.sleep(0.02)
data, _ = stream.get_data()
found = marker.get_data()[0]
info = stream.info
print(json.dumps({
    "names": list(info["ch_names"]), "kinds": stream.get_channel_types(),
    "units": [str(one[1]) for one in stream.get_channel_units()],
    "positions": [(1000 * one["loc"][:3]).tolist() for one in info["chs"]],
    "row": data[:, -1].tolist(), "marker": int(found[found != 0][0])}))
stream.disconnect(); marker.disconnect()
"""
EZMSG = """
import asyncio, json, sys
from ezmsg.lsl.inlet import LSLInfo, LSLInletProducer, LSLInletSettings
async def first(name):
    inlet = LSLInletProducer(LSLInletSettings(info=LSLInfo(name=name)))
    while True:
        found = await inlet.__acall__()
        if found is not None and found.data.size:
            return found
async def main():
    found, marker = await asyncio.gather(first(sys.argv[1]), first(sys.argv[2]))
    channels = found.axes["ch"].data
    print(json.dumps({
        "names": channels["label"].tolist(), "kinds": channels["type"].tolist(),
        "units": channels["unit"].tolist(),
        "positions": [[float(one[axis]) for axis in "xyz"] for one in channels],
        "row": found.data[-1].tolist(), "marker": int(marker.data.ravel()[0])}), flush=True)
asyncio.run(main())
import os
os._exit(0)
"""
TIMEFLUX = """
import json, sys, time
from timeflux.nodes.lsl import Receive
signal, marker = (Receive(prop="name", value=name) for name in sys.argv[1:3])
found = {}
while len(found) < 2:
    for key, node in (("signal", signal), ("marker", marker)):
        node.clear()
        node.update()
        if node.o.ready() and len(node.o.data):
            found[key] = node.o.data.copy()
    time.sleep(0.02)
print(json.dumps({"names": [str(c) for c in found["signal"].columns], "kinds": None, "units": None,
    "positions": None, "row": found["signal"].iloc[-1].tolist(),
    "marker": int(found["marker"].iloc[0, 0])}))
"""
CLIENTS = {"mne_lsl": MNE_LSL, "ezmsg.lsl": EZMSG, "timeflux": TIMEFLUX}


@cache
def python_with(module: str) -> str | None:
    """A Python that has this module: this one, or one of BCI_LSL_CLIENTS."""
    others = os.environ.get("BCI_LSL_CLIENTS", "").split(os.pathsep)
    for python in (sys.executable, *filter(None, others)):
        script = f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
        if not subprocess.run([python, "-c", script], capture_output=True, check=False).returncode:
            return python
    return None


def started(script: str, python: str, settings: Path, *arguments: str) -> "subprocess.Popen[str]":
    settings.write_text(config("machine", os.environ["BCI_LSL_SESSION"]))
    return subprocess.Popen(
        [python, "-W", "ignore", "-c", script, *arguments],
        env={**os.environ, "LSLAPICFG": str(settings)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_all_that_a_replay_sends(client, lsl_transport, contest, tmp_path):
    python = python_with(client)
    if python is None:
        pytest.skip(f"the LSL client {client} is not installed")
    spec, marked = (
        names.signal_stream(contest.name, "r", RATE, LEADS),
        names.code_stream(contest.name, "r"),
    )
    signal, codes = lsl_transport.sample_outlet(spec), lsl_transport.sample_outlet(marked)
    rows = np.tile(np.array([7.5, -3.25, 0], dtype=np.float32), (5, 1))
    process = started(CLIENTS[client], python, tmp_path / "lsl.cfg", spec.name, marked.name)
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(PUSH_S):
            signal.push(rows, lsl_transport.now())
            codes.push(np.array([[21]], dtype=np.int32), lsl_transport.now())

    sender = threading.Thread(target=send)
    sender.start()
    try:
        out, errors = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        ended.set()
        sender.join()
        signal.close()
        codes.close()
    assert process.returncode == 0, errors
    found = json.loads(out.splitlines()[-1])
    assert found["names"] == ["C3", "HEOR", "TRIGGER"]
    assert found["marker"] == 21
    np.testing.assert_allclose(found["row"], [7.5, -3.25, 0])
    if found["kinds"] is None:  # timeflux has names and values only
        return
    assert [kind.lower() for kind in found["kinds"]] == ["eeg", "eog", "stim"]
    assert found["units"][0] in ("microvolts", "-6", "FIFF_UNITM_MU") or "-6" in found["units"][0]
    np.testing.assert_allclose(found["positions"][0], [-60, 10, 80], atol=1e-3)
