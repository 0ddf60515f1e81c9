"""A Neuracle folder: which files are pieces of one recording, with evt.bdf or without."""

import edfio
import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.sources import open_source

RATE = 250
BOUNDS = {"physical_range": (-32768, 32767), "digital_range": (-32768, 32767)}


def sessions(uri):
    return list(open_source(str(uri)).sessions())


def bdf(path, values, notes=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    signal = edfio.BdfSignal(values, RATE, label="C3", physical_dimension="uV", **BOUNDS)
    listed = [edfio.EdfAnnotation(onset, None, text) for onset, text in notes]
    edfio.Bdf([signal], data_record_duration=0.2, annotations=listed).write(path)
    return path


def test_pieces_without_their_events_are_one_recording(tmp_path):
    folder = tmp_path / "rec"
    counter = np.arange(750.0)
    for number, name in enumerate(("data.bdf", "data.1.bdf", "data.2.bdf")):
        bdf(folder / name, counter[250 * number : 250 * (number + 1)])
    (session,) = sessions(folder)
    samples = np.concatenate([packet.samples[:, 0] for packet in session.packets(40)])
    np.testing.assert_array_equal(samples, counter)
    assert session.subject == "rec"
    assert len(session.block_triggers()) == 1
    assert any("no evt.bdf" in note for note in session.notes)
    with pytest.raises(SourceError, match=r"has no evt\.bdf"):
        sessions(f"{folder}?triggers=events")


def test_recordings_in_several_subfolders_are_not_one(tmp_path):
    for name, start in (("anna", 0), ("bert", 1000)):
        bdf(tmp_path / name / "data.bdf", start + np.arange(250.0))
        bdf(tmp_path / name / "evt.bdf", np.zeros(50), [(0.4, str(7 + start // 1000))])
    anna, bert = sessions(tmp_path)
    assert (anna.subject, anna.block_triggers()) == ("anna", [(250, ((100, 7),))])
    assert (bert.subject, bert.block_triggers()) == ("bert", [(250, ((100, 8),))])
    assert next(bert.packets(10)).samples[0, 0] == 1000


def test_a_copy_in_a_subfolder_is_no_piece(tmp_path):
    for place, values in (("rec", np.arange(250.0)), ("rec/backup", np.zeros(250))):
        bdf(tmp_path / place / "data.bdf", values)
        bdf(tmp_path / place / "evt.bdf", np.zeros(50), [(0.4, "7" if place == "rec" else "9")])
    (session,) = sessions(tmp_path / "rec")
    assert session.block_triggers() == [(250, ((100, 7),))]


def test_a_recording_may_lie_in_one_subfolder(tmp_path):
    bdf(tmp_path / "rec" / "eeg" / "data.bdf", np.arange(250.0))
    bdf(tmp_path / "rec" / "eeg" / "evt.bdf", np.zeros(50), [(0.4, "7")])
    (session,) = sessions(tmp_path / "rec")
    assert (session.subject, session.block_triggers()) == ("rec", [(250, ((100, 7),))])


def test_a_piece_that_was_paused_is_refused(tmp_path):
    path = bdf(tmp_path / "rec" / "data.bdf", np.arange(500.0), [(0.1, "a longer text here")])
    bdf(tmp_path / "rec" / "evt.bdf", np.zeros(50), [(0.4, "7")])
    raw = path.read_bytes().replace(b"BDF+C", b"BDF+D", 1)
    path.write_bytes(raw.replace(b"+1.8\x14\x14", b"+9.8\x14\x14"))  # its last record
    with pytest.raises(SourceError, match="records do not follow each other"):
        sessions(tmp_path / "rec")


@pytest.mark.parametrize("left", [0, 100, 300, 512, -1, -40])
def test_events_that_were_cut_off_are_refused(left, tmp_path):
    """MNE would give as many as are left, or none, without a word."""
    bdf(tmp_path / "rec" / "data.bdf", np.arange(2500.0))
    events = bdf(tmp_path / "rec" / "evt.bdf", np.zeros(500), [(0.4, "7"), (1.6, "8")])
    assert sessions(tmp_path / "rec")[0].block_triggers() == [(2500, ((100, 7), (400, 8)))]
    events.write_bytes(events.read_bytes()[:left])
    with pytest.raises(SourceError, match=r"evt\.bdf (is cut off|is empty)"):
        sessions(tmp_path / "rec")


def test_events_that_are_no_bdf_are_refused(tmp_path):
    bdf(tmp_path / "rec" / "data.bdf", np.arange(250.0))
    (tmp_path / "rec" / "evt.bdf").write_bytes(50 * b"garbage")
    with pytest.raises(SourceError, match=r"evt\.bdf does not begin as BDF does"):
        sessions(tmp_path / "rec")
