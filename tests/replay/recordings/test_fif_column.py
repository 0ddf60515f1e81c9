"""One channel of a FIF, read alone, is what MNE reads of it."""

import struct

import mne
import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.events import StimEvents
from replay.readers.fif_column import TAG_HEADER, find_fif_column

RATE = 250
DATA_SKIP, INT32 = 301, 3


def write_fif(path, n_samples=1130, **options):
    rng = np.random.default_rng(4)
    rows = np.vstack([rng.normal(size=(3, n_samples)), rng.integers(0, 300, n_samples)])
    info = mne.create_info(["a", "b", "c", "STI 014"], RATE, ["eeg"] * 3 + ["stim"])
    raw = mne.io.RawArray(rows, info, first_samp=70, verbose="error")
    raw.save(path, buffer_size_sec=0.4, verbose="error", **options)
    return mne.io.read_raw_fif(path, verbose="error")


def assert_is_mnes(raw):
    whole = raw.get_data()
    for channel in range(4):
        column = find_fif_column(raw, channel)
        assert column is not None
        n = raw.n_times
        for start, stop in [(0, n), (0, 1), (99, 101), (100, 300), (123, n - 7), (n - 1, n)]:
            values = column.values(column.read(start, stop))
            np.testing.assert_allclose(values, whole[channel, start:stop], rtol=1e-12)


@pytest.mark.parametrize("form", ["single", "double", "int", "short"])
def test_any_stretch_of_any_channel_is_mnes(form, tmp_path):
    assert_is_mnes(write_fif(tmp_path / "x_raw.fif", fmt=form))


def test_a_recording_in_several_files_is_one(tmp_path):
    raw = write_fif(tmp_path / "x_raw.fif", 300_000, fmt="double", split_size="3MB")
    assert len(raw.filenames) > 1
    assert_is_mnes(raw)


def test_a_gap_in_the_recording_is_0(tmp_path):
    path = tmp_path / "x_raw.fif"
    row = find_fif_column(write_fif(path), 0).rows[0]
    content = bytearray(path.read_bytes())
    # Where the third buffer's tag stands: "one buffer was skipped", and where the next tag is.
    at = row.place + 2 * row.step - TAG_HEADER
    struct.pack_into(">5i", content, at, DATA_SKIP, INT32, 4, at + row.step, 1)
    path.write_bytes(content)
    raw = mne.io.read_raw_fif(path, verbose="error")
    assert any(row.path is None for row in find_fif_column(raw, 3).rows)
    assert_is_mnes(raw)


def test_what_mne_does_not_tell_is_left_to_mne(tmp_path):
    raw = write_fif(tmp_path / "x_raw.fif")
    assert find_fif_column(raw.copy().crop(1.0, 2.0), 3) is None
    assert find_fif_column(raw.copy().pick(["a", "STI 014"]), 1) is None
    assert find_fif_column(mne.io.RawArray(raw.get_data(), raw.info, verbose="error"), 3) is None


def test_a_file_that_was_cut_off_since_it_was_opened_is_told(tmp_path):
    path = tmp_path / "x_raw.fif"
    column = find_fif_column(write_fif(path), 3)
    path.write_bytes(path.read_bytes()[:-8000])
    events = StimEvents("x", 1130, column, lambda _: ())
    with pytest.raises(SourceError, match="ends within its samples"):
        events.all()
