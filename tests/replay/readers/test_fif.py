"""FIF: tags that lead in circles, a recording in several files, a file that changes while it is read."""

import os
import struct

import mne
import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.readers.mne.fif import read_tags, stim_column
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
    read_tags(write(tmp_path / "x.fif", *[(4, 0)] * 5000, (0, last)))


@pytest.mark.parametrize("back", [60, 1, len(FRONT) + 40])
def test_a_tag_that_leads_back_or_to_itself_is_refused(back, tmp_path):
    with pytest.raises(SourceError, match=f"leads back to {back}"):
        read_tags(write(tmp_path / "x.fif", (4, 0), (4, 0), (0, back)))


@pytest.mark.parametrize("size", [-TAG.size, -TAG.size - 1])
def test_a_size_that_leads_back_is_refused(size, tmp_path):
    with pytest.raises(SourceError, match="leads back"):
        read_tags(write(tmp_path / "x.fif", (size, 0)))


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


def coded_raw(n_samples=3000):
    rng = np.random.default_rng(1)
    codes = np.where(rng.random(n_samples) < 0.01, rng.integers(1, 250, n_samples), 0)
    info = mne.create_info(["Cz", "STI 014", "Pz"], 250.0, ["eeg", "stim", "eeg"])
    noise = rng.normal(0, 1e-5, (2, n_samples))
    return mne.io.RawArray(np.stack([noise[0], codes, noise[1]]), info, verbose="error"), codes


@pytest.mark.parametrize("fmt", ["single", "double", "int", "short"])
@pytest.mark.parametrize("bounds", [(0, 3000), (0, 1), (99, 101), (250, 2750), (2999, 3000)])
def test_a_stim_channel_is_read_as_mne_reads_it(fmt, bounds, tmp_path):
    raw, codes = coded_raw()
    path = tmp_path / "x_raw.fif"
    raw.save(path, fmt=fmt, buffer_size_sec=0.4, verbose="error")
    column = stim_column(mne.io.read_raw_fif(path, verbose="error"), "STI 014")
    start, stop = bounds
    np.testing.assert_array_equal(column.values(column.read(start, stop)), codes[start:stop])


def test_a_stim_channel_in_several_files_is_read_as_one(tmp_path):
    opened = mne.io.read_raw_fif(
        save_fif(tmp_path / "x_raw.fif", 660, split_size="2MB"), verbose="error"
    )
    assert len(opened.filenames) > 1
    column = stim_column(opened, "STI 014")
    np.testing.assert_array_equal(column.read(0, opened.n_times), opened["STI 014"][0][0])


def test_samples_left_out_of_a_file_are_left_to_mne(tmp_path):
    raw, _ = coded_raw()
    raw.set_annotations(mne.Annotations([2.0], [3.0], ["BAD_ACQ_SKIP"]))
    path = tmp_path / "x_raw.fif"
    raw.save(path, buffer_size_sec=1, verbose="error")
    opened = mne.io.read_raw_fif(path, verbose="error")
    assert stim_column(opened, "STI 014") is None
    (session,) = open_source(f"{path}?triggers=stim").sessions()
    assert sum(n for n, _ in session.block_triggers()) == opened.n_times


def test_a_stim_channel_of_a_file_that_became_shorter_is_an_error(tmp_path):
    raw, _ = coded_raw()
    path = tmp_path / "x_raw.fif"
    raw.save(path, verbose="error")
    column = stim_column(mne.io.read_raw_fif(path, verbose="error"), "STI 014")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(SourceError, match="become shorter"):
        column.read(0, 3000)


def test_the_stim_channel_is_read_without_mne(tmp_path, monkeypatch):
    (session,) = open_source(f"{save_fif(tmp_path / 'x_raw.fif', 660)}?triggers=stim").sessions()

    def refuse(*_arguments):
        raise AssertionError("MNE would convert every channel")

    monkeypatch.setattr(mne.io.Raw, "__getitem__", refuse)
    ((_, triggers),) = session.block_triggers()
    assert [code for _, code in triggers] == [7] * 11
