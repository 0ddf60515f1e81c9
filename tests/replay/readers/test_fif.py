"""FIF: tags that lead in circles, a recording in several files, a file that changes while it is read."""

import os
import struct

import mne
import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.readers.mne.other_formats import check_tags
from replay.sources import open_source

TAG = struct.Struct(">iIii")
FRONT = TAG.pack(100, 31, 44, 0) + bytes(44)
"""A first tag that covers the place where a directory would be named."""


def write(path, *tags):
    """tags: (size, next); the last one ends the file."""
    body = b"".join(
        TAG.pack(300, 4, size, following) + bytes(max(size, 0)) for size, following in tags
    )
    path.write_bytes(FRONT + body)
    return path


@pytest.mark.parametrize("last", [-1, 0])
def test_tags_in_sequence_are_accepted(last, tmp_path):
    check_tags(write(tmp_path / "x.fif", *[(4, 0)] * 5000, (0, last)))


@pytest.mark.parametrize("back", [60, 1, len(FRONT) + 40])
def test_a_tag_that_leads_back_or_to_itself_is_refused(back, tmp_path):
    with pytest.raises(SourceError, match=f"leads back to {back}"):
        check_tags(write(tmp_path / "x.fif", (4, 0), (4, 0), (0, back)))


@pytest.mark.parametrize("size", [-TAG.size, -TAG.size - 1])
def test_a_size_that_leads_back_is_refused(size, tmp_path):
    with pytest.raises(SourceError, match="leads back"):
        check_tags(write(tmp_path / "x.fif", (size, 0)))


def save_fif(path, seconds, **options):
    """A lead that counts its samples in microvolts, and a code at the end of each minute."""
    count = np.arange(seconds * 250)
    codes = np.where(count % 15_000 == 14_999, 7, 0)
    info = mne.create_info(["Cz", "STI 014"], 250.0, ["eeg", "stim"])
    raw = mne.io.RawArray(np.stack([count * 1e-6, codes]), info, verbose="error")
    raw.save(path, fmt="double", buffer_size_sec=1, verbose="error", **options)
    return str(path)


def test_a_recording_in_several_files_is_one(tmp_path):
    uri = save_fif(tmp_path / "x_raw.fif", 660, split_size="2MB")
    assert len(list(tmp_path.iterdir())) > 1
    (session,) = open_source(uri).sessions()
    packets = list(session.packets(1000))
    played = np.concatenate([packet.samples[:, 0] for packet in packets])
    np.testing.assert_allclose(played, np.arange(660 * 250), rtol=1e-6)
    codes = [packet.start + at for packet in packets for at, code in packet.triggers if code == 7]
    assert codes == list(range(14_999, 660 * 250, 15_000))


def test_a_file_that_is_cut_off_while_it_is_played_is_an_error(tmp_path):
    path = tmp_path / "x_raw.fif"
    (session,) = open_source(save_fif(path, 60)).sessions()
    packets = session.packets(40)
    next(packets)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(SourceError, match="Did the file change, or become shorter"):
        list(packets)
