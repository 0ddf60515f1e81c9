"""Texts of events: sent as markers where nothing is masked, kept by XDF, never sent with a track."""

import edfio
import numpy as np
import pytest
from small_recordings import XdfWriter, stream_header

from replay.model.events import EventCode, code_with_text, text_of
from replay.model.options import SourceOptions
from replay.player.plan import make_plan
from replay.sources import open_source
from tracks.registry import TRACKS

RATE = 250


def edf(path, notes):
    signal = edfio.EdfSignal(
        np.random.default_rng(0).integers(-100, 100, 5 * RATE), RATE, label="Cz",
        physical_dimension="uV", physical_range=(-200, 200),
    )  # fmt: skip
    listed = [edfio.EdfAnnotation(onset, None, text) for onset, text in notes]
    edfio.Edf([signal], annotations=listed).write(path)
    return str(path)


def markers(uri, track=None):
    plan = make_plan(open_source(uri, SourceOptions(track=track)), track)
    return [
        (packet.start + at, code, text)
        for packet in plan.packets()
        for at, code, text in packet.markers
    ]


def test_a_code_with_a_text_is_the_int():
    code = code_with_text(11, "left")
    assert isinstance(code, EventCode)
    assert (code, str(code), text_of(code)) == (11, "11", "left")
    assert {code: 1}[11] == 1
    assert type(code_with_text(11, "11")) is int
    assert text_of(11) == ""


def test_the_marker_of_an_annotation_is_its_text_and_its_code_is_the_rules(tmp_path):
    notes = [(1.0, "left hand"), (2.0, "Stimulus/S  2"), (3.0, "7"), (4.0, "no code")]
    uri = edf(tmp_path / "x.edf", notes) + "?events=left hand=11"
    assert markers(uri) == [(250, 11, "left hand"), (500, 2, "Stimulus/S  2"), (750, 7, "7")]


def test_codes_on_the_wire_are_plain_ints(tmp_path):
    uri = edf(tmp_path / "x.edf", [(1.0, "left")]) + "?events=left=11"
    plan = make_plan(open_source(uri), None)
    codes = [code for packet in plan.packets() for _, code in packet.triggers]
    assert [type(code) for code in codes] == [int]


@pytest.mark.parametrize("track", TRACKS)
def test_with_a_track_no_packet_has_a_text(track, tmp_path):
    """Every code that a track's training data can have, each with a text that gives it away."""
    from replay.model.recording import ArrayBlock, Recording
    from replay.transform.masking import masked_packets

    found = TRACKS[track]
    triggers = tuple((5 * k, EventCode(k, f"label {k}")) for k in range(1, 256))
    leads = open_source(f"synthetic:{track}?seed=1").sessions().__next__().leads
    block = ArrayBlock(np.zeros((5 * 256, len(leads)), dtype=np.float32), triggers)
    session = Recording("S1", float(found.rate), leads, [block])
    packets = list(masked_packets(found, session))
    assert any(packet.triggers for packet in packets)
    assert all(packet.texts == () for packet in packets)
    assert all(type(code) is int for packet in packets for _, code in packet.triggers)
    assert all(text == str(code) for packet in packets for _, code, text in packet.markers)


def test_a_table_gives_its_words_and_its_hed_column(tmp_path):
    edf(tmp_path / "x.edf", [])
    (tmp_path / "x_events.tsv").write_text(
        "onset\tduration\ttrial_type\tvalue\tHED\n"
        "1\t0\tleft\t11\tSensory-event, (Left, Hand)\n2\t0\tn/a\t21\tn/a\n3\t0\tn/a\t22\tRed\n"
    )
    assert markers(str(tmp_path / "x.edf")) == [
        (250, 11, "left\tSensory-event, (Left, Hand)"),
        (500, 21, "21"),
        (750, 22, "22\tRed"),
    ]


def xdf(path, ids=("bci/c/markers/r", "bci/c/codes/r")):
    """What `record` writes of a replay: a signal, its markers as texts, and again as codes."""
    times = 100 + np.arange(500) / RATE
    samples = np.random.default_rng(0).normal(0, 10, (500, 1)).astype(np.float32)
    texts = [["left"], ["21"], ["right\tRed"]]
    with path.open("wb") as file:
        writer = XdfWriter(file)
        writer.stream(1, stream_header("Signal", "EEG", 1, RATE, "float32", ""))
        for number, form in ((2, "string"), (3, "int32")):
            header = stream_header(f"M{number}", "Markers", 1, 0, form, "")
            writer.stream(number, header.replace(f"M{number}-1", ids[number - 2]))
        writer.samples(1, samples, times)
        at = times[[50, 100, 150]]
        writer.samples(2, texts, at)
        writer.samples(3, [np.array([code], dtype=np.int32) for code in (11, 21, 31)], at)
        writer.finish(1, times[0], times[-1], 500)
        writer.finish(2, at[0], at[-1], 3)
        writer.finish(3, at[0], at[-1], 3)
    return str(path)


def test_texts_and_codes_of_a_recorded_replay_are_one_event_each(tmp_path):
    assert markers(xdf(tmp_path / "x.xdf")) == [
        (50, 11, "left"), (100, 21, "21"), (150, 31, "right\tRed"),
    ]  # fmt: skip


def test_a_rule_for_the_text_comes_before_the_recorded_code(tmp_path):
    uri = f"{xdf(tmp_path / 'x.xdf')}?events=left=3,31=4"
    assert markers(uri) == [(50, 3, "left"), (100, 21, "21"), (150, 4, "right\tRed")]


def test_streams_of_other_programs_stay_apart(tmp_path):
    uri = f"{xdf(tmp_path / 'x.xdf', ids=('a', 'b'))}?events=left=3"
    assert markers(uri) == [(50, 3, "left"), (50, 11, "11"), (100, 21, "21"), (150, 31, "31")]
