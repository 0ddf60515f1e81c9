"""A FIF opened without a look at each of its tags is the one that MNE opens."""

import datetime
import struct
from unittest.mock import Mock

import mne
import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.readers.formats import read_recording
from replay.readers.mne.fif import SAMPLES, LazyFif, open_fif, walk_tags

RATE = 250
NAMES = ["Fz", "a lead with a very long name", "Oz", "STI 014"]


@pytest.fixture
def written():
    """A recording with all that a FIF may say about itself."""
    rng = np.random.default_rng(4)
    rows = np.vstack([1e-5 * rng.normal(size=(3, 5130)), rng.integers(0, 300, 5130)])
    info = mne.create_info(NAMES, RATE, ["eeg", "misc", "eeg", "stim"])
    places = {"Fz": (0.0, 0.07, 0.09), "Oz": (0.0, -0.1, 0.04)}
    ears = {"nasion": (0.0, 0.1, 0.0), "lpa": (-0.08, 0.0, 0.0), "rpa": (0.08, 0.0, 0.0)}
    montage = mne.channels.make_dig_montage(places, **ears)
    info.set_montage(montage, on_missing="ignore")
    raw = mne.io.RawArray(rows, info, first_samp=70, verbose="error")
    raw.info["bads"] = ["Oz"]
    raw.set_meas_date(datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC))
    raw.set_annotations(mne.Annotations([0.5, 3.0, 20.1], 0.2, ["T1", "T2", "T1"]))
    return raw


def save(raw, path, **options):
    raw.save(path, buffer_size_sec=0.4, verbose="error", **options)
    return str(path)


def opened(path):
    with mne.use_log_level("error"):
        return open_fif(path), mne.io.read_raw_fif(path)


def every_tag(path):
    return [one for tag in walk_tags(path) for one in tag.each()]


def buffers(path):
    return [tag for tag in every_tag(path) if tag.kind == SAMPLES]


def assert_same(ours, mnes):
    assert mne.utils.object_diff(ours.info, mnes.info) == ""
    assert ours.annotations == mnes.annotations
    assert (ours.first_samp, ours.n_times) == (mnes.first_samp, mnes.n_times)
    assert ours.orig_format == mnes.orig_format
    np.testing.assert_array_equal(ours.get_data(), mnes.get_data())
    np.testing.assert_array_equal(ours[[2, 0], 95:305][0], mnes[[2, 0], 95:305][0])


@pytest.mark.parametrize("form", ["single", "double", "int", "short"])
def test_all_that_mne_says_of_a_file_is_said(form, written, tmp_path):
    ours, mnes = opened(save(written, tmp_path / "x_raw.fif", fmt=form))
    assert isinstance(ours, LazyFif)
    assert not ours.preload
    assert_same(ours, mnes)


def test_a_recording_without_a_date_has_its_annotations_where_mne_has_them(written, tmp_path):
    written.set_meas_date(None)
    ours, mnes = opened(save(written, tmp_path / "x_raw.fif"))
    assert isinstance(ours, LazyFif)
    assert len(mnes.annotations) == 3
    assert_same(ours, mnes)


def test_several_files_and_gaps_are_left_to_mne(written, tmp_path):
    long = mne.concatenate_raws([written.copy() for _ in range(40)], verbose="error")
    ours, mnes = opened(save(long, tmp_path / "many_raw.fif", split_size="3MB"))
    assert not isinstance(ours, LazyFif)
    assert len(mnes.filenames) > 1
    assert_same(ours, mnes)

    path = save(written, tmp_path / "gap_raw.fif")
    third = buffers(tmp_path / "gap_raw.fif")[2]
    change(path, third.pos, struct.pack(">5i", 301, 3, 4, third.end, 1))
    ours, mnes = opened(path)
    assert not isinstance(ours, LazyFif)
    assert_same(ours, mnes)


def change(path, at, new):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(new)


def test_a_directory_of_the_files_own_is_used(written, tmp_path):
    path = tmp_path / "x_raw.fif"
    save(written, path)
    entries = b"".join(struct.pack(">iIii", t.kind, t.type, t.size, t.pos) for t in every_tag(path))
    end = path.stat().st_size
    with path.open("ab") as file:
        file.write(struct.pack(">iIii", 102, 32, len(entries), -1) + entries)
    change(path, 52, end.to_bytes(4, "big"))
    assert walk_tags(path) == []
    assert_same(*opened(str(path)))


def test_a_file_that_is_cut_off_is_refused(written, tmp_path):
    path = tmp_path / "x_raw.fif"
    save(written, path)
    content = path.read_bytes()
    for length in (len(content) - 20, len(content) // 2, len(content) // 2 + 7, 700):
        path.write_bytes(content[:length])
        with pytest.raises(SourceError, match=r"x_raw\.fif"):
            read_recording(path, SourceOptions())


def test_a_buffer_of_half_a_sample_is_left_to_mne(written, tmp_path):
    path = save(written, tmp_path / "x_raw.fif")
    last = buffers(tmp_path / "x_raw.fif")[-1]
    # Two bytes of the last buffer become bytes that no tag holds.
    change(path, last.pos, struct.pack(">iIii", 300, last.type, last.size - 2, last.end))
    with mne.use_log_level("error"):
        assert not isinstance(open_fif(path), LazyFif)


def test_an_mne_that_has_changed_inside_opens_the_file_itself(written, tmp_path, monkeypatch):
    path = save(written, tmp_path / "x_raw.fif")
    monkeypatch.setattr(LazyFif, "__init__", Mock(side_effect=KeyError("bounds")))
    with mne.use_log_level("error"):
        raw = open_fif(path)
    assert not isinstance(raw, LazyFif)
    assert_same(raw, mne.io.read_raw_fif(path, verbose="error"))
