"""A file that was paused (EDF+D, BDF+D): each event on the sample of its time, a block after each pause."""

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.readers.mne.edf import read_edf_header
from replay.readers.mne.record_times import RecordTimes
from replay.sources import open_source

RATE, RECORDS = 100, 6


def opened(path, parameters=""):
    (session,) = open_source(f"{path}{parameters}").sessions()
    return session


def triggers(session):
    return [own for _, own in session.block_triggers()]


def write_paused(path, starts, notes, trigger_at=None):
    """A file of records of 1 s each that begin at these times (in place of 0, 1, 2 ...)."""
    import edfio

    bdf = path.suffix == ".bdf"
    signal, document = (edfio.BdfSignal, edfio.Bdf) if bdf else (edfio.EdfSignal, edfio.Edf)
    bounds = {"physical_range": (-32768, 32767), "digital_range": (-32768, 32767)}
    counter, codes = np.arange(RECORDS * RATE, dtype=float), np.zeros(RECORDS * RATE)
    rows = [signal(counter, RATE, label="C3", physical_dimension="uV", **bounds)]
    if trigger_at is not None:
        codes[trigger_at] = 5
        rows.append(signal(codes, RATE, label="TRIGGER", physical_dimension="", **bounds))
    listed = [edfio.EdfAnnotation(onset, None, text) for onset, text in notes]
    document(rows, data_record_duration=1, annotations=listed).write(path)
    raw = bytearray(path.read_bytes().replace(b"DF+C", b"DF+D", 1))
    (column,) = read_edf_header(path).annotation_columns()
    for record, (text, start) in enumerate(zip(column.texts(), starts, strict=True)):
        at = column.data_start + record * column.record_bytes + column.column_start
        moved = text.replace(b"+%d\x14\x14" % record, b"+%s\x14\x14" % start.encode(), 1)
        raw[at : at + len(text)] = moved[: len(text)]
        assert not moved[len(text) :].strip(b"\0")
    path.write_bytes(raw)
    return path


LONG = (5.9, "a long text: every record gets as much room")


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
def test_events_are_on_the_sample_of_their_time_and_pauses_begin_blocks(suffix, tmp_path):
    path = write_paused(tmp_path / f"x{suffix}", "015678", [(0.5, "1"), (5.5, "2"), (8.99, "3")])
    session = opened(path)
    assert triggers(session) == [((50, 1),), ((50, 2), (399, 3))]
    assert [n for n, _ in session.block_triggers()] == [200, 400]
    found = np.concatenate([packet.samples[:, 0] for packet in session.packets(30)])
    np.testing.assert_array_equal(found, np.arange(RECORDS * RATE))
    assert any("there is a pause in it" in note for note in session.notes)


def test_events_within_a_pause_are_left_out_and_noted(tmp_path):
    path = write_paused(tmp_path / "x.edf", "015678", [(0.5, "1"), (3.0, "2"), (9.5, "3")])
    session = opened(path)
    assert triggers(session) == [((50, 1),), ()]
    assert any("2 events lie outside the recording" in note for note in session.notes)


def test_what_follows_an_event_by_seconds_follows_it_by_the_clock(tmp_path):
    path = write_paused(tmp_path / "x.edf", "015678", [(1.5, "1")])
    session = opened(path, "?events=1=11%2B12@4%2B13@2,START=242,END=243")
    assert triggers(session) == [((0, 242), (150, 11)), ((50, 12), (399, 243))]


def test_a_trigger_channels_triggers_stay_on_their_samples(tmp_path):
    path = write_paused(tmp_path / "x.edf", "015678", [LONG], trigger_at=[120, 333])
    assert triggers(opened(path, "?triggers=TRIGGER")) == [((120, 5),), ((133, 5),)]
    delayed = opened(path, "?triggers=TRIGGER&events=5=1%2B2@4%2B3@3")
    assert triggers(delayed) == [((120, 1),), ((20, 2), (133, 1))]


def test_an_events_files_seconds_are_those_of_the_clock(tmp_path):
    path = write_paused(tmp_path / "x.edf", "015678", [LONG])
    (tmp_path / "mine.csv").write_text("onset,name\n5.25,8\n")
    session = opened(path, f"?events_file={tmp_path / 'mine.csv'}")
    assert triggers(session) == [(), ((25, 8),)]


def test_a_discontinuous_file_without_a_pause_is_like_any_other(tmp_path):
    session = opened(write_paused(tmp_path / "x.edf", "012345", [(5.5, "2")]))
    assert triggers(session) == [((550, 2),)]
    assert session.notes == ()


def test_a_clocks_inaccuracy_is_no_pause(tmp_path):
    starts = ["0", "1.01", "2", "3.015", "4.01", "5"]
    session = opened(write_paused(tmp_path / "x.edf", starts, [(3.025, "2"), LONG]))
    assert triggers(session) == [((301, 2),)]
    assert "pause" not in str(session.notes)


def test_records_that_overlap_are_refused(tmp_path):
    path = write_paused(tmp_path / "x.edf", "013245", [LONG])
    with pytest.raises(SourceError, match="overlap in time"):
        opened(path)


def test_records_without_a_time_are_refused(tmp_path):
    path = write_paused(tmp_path / "x.edf", "015678", [LONG])
    path.write_bytes(path.read_bytes().replace(b"+6\x14\x14", b"x6\x14\x14", 1))
    with pytest.raises(SourceError, match="does not state when each record begins"):
        opened(path)


@pytest.mark.parametrize("rate", [250.0, 256.0, 999.9])
def test_every_sample_is_found_again_at_its_place(rate):
    starts = np.array([0.0, 1.0, 2.0, 17.3337, 18.3337, 100.1])
    times = RecordTimes(starts, round(rate), rate)
    for sample in range(6 * round(rate)):
        assert times.sample_of(times.clock_of(sample)) == sample
    assert times.sample_of(times.n_clock - 1) == 6 * round(rate) - 1
    assert times.sample_of(times.n_clock) is None
    assert times.sample_of(round(50 * rate)) is None
