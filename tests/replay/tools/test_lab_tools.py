"""Lab tools on LSL: MNE-LSL's player as a source, MNE-LSL and LabRecorder's format as readers."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import pyxdf

from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.network import config
from replay.model.event_map import EventMap
from replay.model.events import text_of
from replay.model.options import SourceOptions
from replay.sources import open_source
from replay.tools.record import query, record

pytestmark = [
    pytest.mark.lsl,
    pytest.mark.skipif(not importlib.util.find_spec("mne_lsl"), reason="mne-lsl is not installed"),
]

LEADS = (
    Lead("C3", "EEG", "microvolts", (-0.06, 0.01, 0.08)),
    Lead("HEOR", "EOG", "microvolts"),
)
RATE = 250.0
DEADLINE_S = 60.0

PLAYER = """
import sys
import mne
import numpy as np
from mne_lsl.player import PlayerLSL
info = mne.create_info(["C3", "C4"], 250.0, "eeg")
raw = mne.io.RawArray(np.arange(2000.0).reshape(2, 1000) * 1e-6, info, verbose="error")
onsets = np.arange(0.5, 3.6, 0.5)
labels = ["left", "right"] * 4
raw.set_annotations(mne.Annotations(onsets, [2.0, 3.0] * 3 + [2.0], labels[: len(onsets)]))
player = PlayerLSL(raw, chunk_size=25, name=sys.argv[1], source_id=sys.argv[1] + "-id", annotations=True,
                   annotations_encoding=sys.argv[2])
player.start()
print("ready", flush=True)
sys.stdin.readline()
player.stop()
"""
READER = """
import json, sys
from mne_lsl.stream import StreamLSL
stream = StreamLSL(bufsize=2, name=sys.argv[1], source_id=sys.argv[2])
stream.connect(acquisition_delay=None, timeout=30)
print(json.dumps([channel["loc"][:3].tolist() for channel in stream.info["chs"]]))
stream.disconnect()
"""


@contextmanager
def python(script: str, settings: Path, *arguments: str):
    """A process with a liblsl of its own, in the session of these tests."""
    settings.write_text(config("machine", os.environ["BCI_LSL_SESSION"]))
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        env={**os.environ, "LSLAPICFG": str(settings)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("encoding", ["one-hot", "string"])
def test_annotations_of_mne_lsls_player_are_codes_by_label(encoding, lsl_transport, tmp_path):
    name = f"player-{encoding}"
    with python(PLAYER, tmp_path / "lsl_api.cfg", name, encoding) as process:
        assert process.stdout.readline() == "ready\n"
        options = SourceOptions(events=EventMap.parse("left=11,right=21"))
        uri = f"lsl:{name}?markers={name}-annotations&hold_ms=200&wait_s=30"
        source = open_source(uri, options, lsl_transport)
        (session,) = source.sessions()
        found: list[tuple[int, str]] = []
        deadline = time.monotonic() + DEADLINE_S
        for packet in session.packets(10):
            found += [(int(code), text_of(code)) for _, code in packet.triggers]
            if {(11, "left"), (21, "right")} <= set(found) or time.monotonic() > deadline:
                break
        source.close()
    assert set(found) == {(11, "left"), (21, "right")}


def test_a_recorded_replay_keeps_texts_codes_and_positions(lsl_transport, contest, tmp_path):
    signal = lsl_transport.sample_outlet(names.signal_stream(contest.name, "r", RATE, LEADS))
    markers = lsl_transport.text_outlet(names.text_stream(contest.name, "markers", "r"))
    codes = lsl_transport.sample_outlet(names.code_stream(contest.name, "r"))
    stop, path = threading.Event(), tmp_path / "wire.xdf"
    samples = np.zeros((500, 3), dtype=np.float32)
    samples[:, 0] = np.arange(500)
    samples[100, 2], samples[300, 2] = 11, 21

    def send() -> None:
        begin = lsl_transport.now() - 3
        signal.push(samples, (begin + np.arange(500) / RATE).tolist())
        for at, code, text in ((100, 11, "left"), (300, 21, "right\tRed")):
            markers.push(text, begin + at / RATE)
            codes.push(np.array([[code]], dtype=np.int32), begin + at / RATE)
        stop.set()

    prefix = f"bci/{contest.name}/"
    queries = [query(source_id=f"{prefix}{role}/r") for role in ("signal", "markers", "codes")]
    session = os.environ["BCI_LSL_SESSION"]
    record(path, queries, stop=stop, lsl_config=config("machine", session), on_start=send)
    streams, _ = pyxdf.load_xdf(str(path))
    texts = next(s for s in streams if s["info"]["channel_format"] == ["string"])
    assert [row[0] for row in texts["time_series"]] == ["left", "right\tRed"]
    (ours,) = open_source(str(path)).sessions()
    assert [(lead.name, lead.kind, lead.unit) for lead in ours.leads] == [
        ("C3", "EEG", "microvolts"), ("HEOR", "EOG", "microvolts"),
    ]  # fmt: skip
    np.testing.assert_allclose(ours.leads[0].position, LEADS[0].position, atol=1e-6)
    assert ours.leads[1].position is None
    ((_, triggers),) = ours.block_triggers()
    assert [(at, int(code), text_of(code)) for at, code in triggers] == [
        (100, 11, "left"), (300, 21, "right\tRed"),
    ]  # fmt: skip


def test_mne_lsl_reads_positions(lsl_transport, contest, tmp_path):
    spec = names.signal_stream(contest.name, "r", RATE, LEADS)
    outlet = lsl_transport.sample_outlet(spec)
    with python(READER, tmp_path / "lsl_api.cfg", spec.name, spec.source_id) as process:
        found = json.loads(process.stdout.readline())
    outlet.close()
    np.testing.assert_allclose(found[0], LEADS[0].position, atol=1e-6)
    assert np.isnan(found[1]).all()
