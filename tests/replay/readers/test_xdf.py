"""The markers of an XDF: all of them, in their order, each on the sample of its time or nowhere."""

import os
import subprocess
import sys

import numpy as np
import pytest
from small_recordings import XdfWriter, stream_header

from bci_stream.errors import SourceError
from replay.sources import open_source

RATE = 250
START_S = 100.0
SIGNAL_S = START_S + np.arange(1250) / RATE
TYPES = {"float32": np.float32, "double64": np.float64, "int32": np.int32}


def write_xdf(path, *others, signal_s=SIGNAL_S, signal_xml=""):
    """An EEG with these stamps, and other streams: (name, type, format, stamps, values)."""
    with path.open("wb") as file:
        writer = XdfWriter(file)
        header = stream_header("Signal", "EEG", 1, RATE, "float32", "")
        writer.stream(1, header.replace("<desc>", f"<desc>{signal_xml}"))
        for number, (name, kind, form, _, values) in enumerate(others, 2):
            writer.stream(number, stream_header(name, kind, np.size(values[0]), 0, form, ""))
        writer.samples(1, np.arange(len(signal_s), dtype=np.float32)[:, None], signal_s)
        for number, (_, _, form, times, values) in enumerate(others, 2):
            writer.samples(number, [row_of(form, value) for value in values], times)
    return path


def row_of(form, value):
    return [value] if form == "string" else np.atleast_1d(value).astype(TYPES[form])


def strings(times, values, name="Marks"):
    return name, "Markers", "string", times, values


def opened(path, parameters=""):
    (session,) = open_source(f"{path}?{parameters}").sessions()
    return session


def triggers(session):
    """Counted from the beginning of the recording, not of each block."""
    return [
        (block.start + sample, code)
        for block, (_, own) in zip(session.blocks, session.block_triggers(), strict=True)
        for sample, code in own
    ]


def test_messages_of_a_replay_are_no_markers(tmp_path):
    message = ("bci/default/control/lab", "BCI-Control", "string", [101.0], ["7"])
    marks = strings([102.0], ["21"], "bci/default/markers/lab")
    session = opened(write_xdf(tmp_path / "x.xdf", message, marks))
    assert triggers(session) == [(500, 21)]
    assert not any("left out" in note for note in session.notes)


# Their order


def test_markers_of_one_sample_stay_in_the_order_of_their_times(tmp_path):
    later = strings([101.0011, 101.0015], ["31", "12"])
    earlier = strings([101.0001, 101.0012], ["21", "32"], "Others")
    path = write_xdf(tmp_path / "x.xdf", later, earlier)
    assert triggers(opened(path)) == [(250, code) for code in (21, 31, 32, 12)]


def test_markers_of_one_time_stay_in_the_order_of_the_file(tmp_path):
    codes = [str(code) for code in range(40, 10, -1)]
    path = write_xdf(
        tmp_path / "x.xdf", strings([101.0] * 30, codes), strings([101.0], ["5"], "Others")
    )
    look = f"print({__name__}.triggers({__name__}.opened({str(path)!r})))"
    command = [sys.executable, "-c", f"import {__name__}; {look}"]
    for seed in ("1", "2"):  # Python hashes texts otherwise in each process
        found = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert found.strip() == str([(250, int(code)) for code in (*codes, "5")])


def test_two_equal_markers_of_one_sample_are_two(tmp_path):
    path = write_xdf(tmp_path / "x.xdf", strings([101.0, 101.0005], ["7", "7"]))
    assert triggers(opened(path)) == [(250, 7), (250, 7)]


# Which streams hold them


def test_what_two_streams_repeat_is_one_event(tmp_path):
    """Our own replay sends each code as a text and as a number."""
    texts = strings([101.0, 101.0001, 101.0002, 102.0], ["7", "8", "7", "9"])
    numbers = ("Codes", "Markers", "int32", [101.0, 102.0, 103.0], [7, 9, 5])
    path = write_xdf(tmp_path / "x.xdf", texts, numbers)
    assert triggers(opened(path)) == [(250, 7), (250, 8), (250, 7), (500, 9), (750, 5)]


def test_an_irregular_stream_of_data_gives_no_triggers_and_is_noted(tmp_path):
    times = START_S + np.arange(300) / 61
    gaze = ("Gaze", "Gaze", "float32", times, [(k, 2 * k) for k in range(300)])
    pupil = ("Pupil", "", "double64", times, [float(k) for k in range(300)])
    fingers = ("Fingers", "Mocap", "int32", times, [(k, k) for k in range(300)])
    path = write_xdf(tmp_path / "x.xdf", gaze, strings([101.0], ["11"]), pupil, fingers)
    session = opened(path)
    assert triggers(session) == [(250, 11)]
    (note,) = [note for note in session.notes if "no marker streams" in note]
    assert "'Gaze', 'Pupil', 'Fingers'" in note
    assert not any("no marker streams" in note for note in opened(path, "triggers=Marks").notes)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("my_MARKERS", "float32"),
        ("Stimulus", "double64"),
        ("Triggers", "float32"),
        ("Events", "int32"),
        ("", "int32"),
    ],
)
def test_numbers_are_markers_where_the_stream_states_it_or_holds_one_whole_number(
    kind, form, tmp_path
):
    path = write_xdf(tmp_path / "x.xdf", ("Codes", kind, form, [101.0, 102.0], [11, 12]))
    assert triggers(opened(path)) == [(250, 11), (500, 12)]


def test_any_irregular_stream_is_taken_when_it_is_named(tmp_path):
    gaze = ("Gaze", "Gaze", "float32", [101.0, 102.0], [(11, 0), (12, 0)])
    path = write_xdf(tmp_path / "x.xdf", gaze, strings([101.0], ["1"]))
    session = opened(path, "triggers=Gaze")
    assert triggers(session) == [(250, 11), (500, 12)]
    with pytest.raises(SourceError, match="its marker streams: 'Gaze', 'Marks'"):
        opened(path, "triggers=Signal")


def test_an_irregular_stream_of_data_is_no_signal_either(tmp_path):
    path = write_xdf(tmp_path / "x.xdf", ("Gaze", "EEG", "float32", [101.0], [(1, 2)]))
    assert len(opened(path).leads) == 1
    with pytest.raises(SourceError, match="signal stream 'Gaze', and has 0"):
        opened(path, "stream=Gaze")


def test_a_number_that_is_nearly_whole_is_rounded_and_any_other_is_no_code(tmp_path):
    values = [2.9999999, 3.0000001, 4.5, 5.01, float("nan")]
    codes = ("Codes", "Markers", "double64", 101.0 + np.arange(5), values)
    session = opened(write_xdf(tmp_path / "x.xdf", codes))
    assert triggers(session) == [(250, 3), (500, 3)]
    path = tmp_path / "x.xdf"
    assert triggers(opened(path, "events=4.5=9,*=0")) == [(750, 9)]
    assert any("'4.5' (1), '5.01' (1)" in note for note in session.notes)


# On which sample they fall


def left_out(session):
    return [note for note in session.notes if "markers lie outside" in note]


def test_markers_before_and_after_the_signal_are_left_out_and_counted(tmp_path):
    times = [98.0, 99.5, 99.99, 104.999, 105.5, 107.0]
    path = write_xdf(tmp_path / "x.xdf", strings(times, ["1", "2", "3", "4", "5", "6"]))
    session = opened(path)
    assert triggers(session) == [(0, 3), (1249, 4)]
    (note,) = left_out(session)
    assert "4 of 6 markers lie outside the signal" in note


def test_a_marker_is_on_its_sample_as_far_as_clocks_are_uncertain(tmp_path):
    at_most_s = 0.5 / RATE + 0.01
    times = START_S + np.array([-at_most_s - 1e-4, -at_most_s + 1e-4])
    session = opened(write_xdf(tmp_path / "x.xdf", strings(times, ["1", "2"])))
    assert triggers(session) == [(0, 2)]
    assert "1 of 2" in left_out(session)[0]


def test_no_note_where_no_marker_is_left_out(tmp_path):
    session = opened(write_xdf(tmp_path / "x.xdf", strings([101.0], ["1"])))
    assert not left_out(session)


@pytest.mark.parametrize(
    "signal_xml",
    ["", "<synchronization><can_drop_samples>true</can_drop_samples></synchronization>"],
    ids=["between segments", "between stamps of one segment"],
)
def test_a_marker_in_a_gap_of_the_signal_is_left_out_and_counted(signal_xml, tmp_path):
    signal_s = np.concatenate([SIGNAL_S, SIGNAL_S + 25])
    marks = strings([101.0, 110.0, 126.0], ["1", "2", "3"])
    path = write_xdf(tmp_path / "x.xdf", marks, signal_s=signal_s, signal_xml=signal_xml)
    session = opened(path)
    assert triggers(session) == [(250, 1), (1500, 3)]
    assert "1 of 3 markers" in left_out(session)[0]


@pytest.mark.parametrize(("lost_s", "blocks"), [(0.02, 1), (0.5, 1), (1.5, 2)])
def test_samples_that_were_lost_move_no_marker_and_are_counted(lost_s, blocks, tmp_path):
    signal_s = SIGNAL_S + lost_s * (np.arange(len(SIGNAL_S)) >= 600)
    places = [10, 590, 610, 1240]
    marks = strings([float(signal_s[at]) for at in places], ["1", "2", "3", "4"])
    session = opened(write_xdf(tmp_path / "x.xdf", marks, signal_s=signal_s))
    assert triggers(session) == list(zip(places, [1, 2, 3, 4], strict=True))
    assert f"by its stamps {round(lost_s * RATE)} samples are missing, in 1 gap" in "".join(
        session.notes
    )
    assert len(session.blocks) == blocks


def test_a_rate_that_the_stamps_do_not_show_is_noted(tmp_path):
    session = opened(write_xdf(tmp_path / "x.xdf", signal_s=START_S + np.arange(1250) / 200))
    assert "its stamps show a rate of 200 Hz, its header states 250 Hz" in "".join(session.notes)


# Clocks that were set back


def test_markers_find_their_sample_where_the_signals_clock_was_set_back(tmp_path):
    signal_s = np.concatenate([SIGNAL_S, SIGNAL_S - 86])
    marks = strings([101.0, 104.0, 15.0, 18.0, 60.0], ["1", "2", "3", "4", "5"])
    session = opened(write_xdf(tmp_path / "x.xdf", marks, signal_s=signal_s))
    assert triggers(session) == [(250, 1), (1000, 2), (1500, 3), (2250, 4)]
    assert "1 of 5 markers" in left_out(session)[0]


def test_a_time_that_two_segments_have_is_the_nearer_samples_and_else_the_firsts(tmp_path):
    signal_s = np.concatenate([SIGNAL_S, SIGNAL_S, SIGNAL_S + 0.001])
    marks = strings([101.0, 102.0011, 103.0021], ["1", "2", "3"])
    session = opened(write_xdf(tmp_path / "x.xdf", marks, signal_s=signal_s))
    assert triggers(session) == [(250, 1), (3000, 2), (3250, 3)]
