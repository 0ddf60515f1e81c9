"""A look through a file: one channel's words are what MNE reads of it, and no bad sample is missed."""

import struct
from pathlib import Path

import mne
import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.readers.formats import read_recording
from replay.readers.mne import buffers as buffers_module
from replay.readers.mne.buffers import BufferRow, Buffers, find_buffers, rows_of_run
from replay.readers.mne.fif import HEADER
from replay.sources import open_source

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
        info = raw.info["chs"][channel]
        found = find_buffers(raw, "FIF")
        look = found.look(channel)
        assert look.suspects == ()
        values = held(look, raw.n_times).astype(float) * info["cal"] * info["range"]
        np.testing.assert_allclose(values, whole[channel], rtol=1e-12)


def held(look, n_samples):
    """The channel that a look has seen: each value stands until the next."""
    assert look.starts[0] == 0
    return np.repeat(look.words, np.diff([*look.starts, n_samples]))


@pytest.fixture(params=[1 << 22, 3000], ids=["", "in small pieces"], autouse=True)
def piece_bytes(request, monkeypatch):
    monkeypatch.setattr(buffers_module, "PIECE_BYTES", request.param)
    monkeypatch.setattr("replay.readers.mne.buffers.PIECE_BYTES", request.param)


@pytest.mark.parametrize("form", ["single", "double", "int", "short"])
def test_any_channel_is_mnes(form, tmp_path):
    assert_is_mnes(write_fif(tmp_path / "x_raw.fif", fmt=form))


def test_a_recording_in_several_files_is_one(tmp_path):
    raw = write_fif(tmp_path / "x_raw.fif", 300_000, fmt="double", split_size="3MB")
    assert len(raw.filenames) > 1
    assert_is_mnes(raw)


def test_a_gap_in_the_recording_is_0(tmp_path):
    path = tmp_path / "x_raw.fif"
    row = find_buffers(write_fif(path), "FIF").rows[0]
    content = bytearray(path.read_bytes())
    # Where the third buffer's tag stands: "one buffer was skipped", and where the next tag is.
    at = row.place + 2 * row.step - HEADER.size
    struct.pack_into(">5i", content, at, DATA_SKIP, INT32, 4, at + row.step, 1)
    path.write_bytes(content)
    raw = mne.io.read_raw_fif(path, verbose="error")
    assert any(row.path is None for row in find_buffers(raw, "FIF").rows)
    assert_is_mnes(raw)


def test_what_mne_does_not_tell_is_left_to_mne(tmp_path):
    raw = write_fif(tmp_path / "x_raw.fif")
    in_memory = mne.io.RawArray(raw.get_data(), raw.info, verbose="error")
    for changed in (raw.copy().crop(1.0, 2.0), raw.copy().pick(["a", "STI 014"]), in_memory):
        assert find_buffers(changed, "FIF") is None
    assert find_buffers(raw, "EDF") is None


def test_a_file_that_was_cut_off_since_it_was_opened_is_told(tmp_path):
    path = tmp_path / "x_raw.fif"
    found = find_buffers(write_fif(path), "FIF")
    path.write_bytes(path.read_bytes()[:-8000])
    with pytest.raises(SourceError, match=r"x_raw\.fif ends within its samples"):
        found.look(3)


BAD = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38]
WORDS = [">f4", "<f4", ">f8"]


@st.composite
def layouts(draw):
    """(word, channels, rows of (buffers, samples in each, bytes between them)), as files may have them."""
    word = draw(st.sampled_from(WORDS))
    rows = st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(0, 21))
    return word, draw(st.integers(1, 5)), draw(st.lists(rows, min_size=1, max_size=4))


@given(layouts(), st.data())
def test_no_bad_value_is_missed_wherever_it_stands(tmp_path_factory, layout, data):
    word, n_channels, shapes = layout
    n_samples = sum(n_buffers * length for n_buffers, length, _ in shapes)
    rng = np.random.default_rng(n_samples)
    samples = (1e-5 * rng.normal(size=(n_samples, n_channels))).astype(word)
    bad = data.draw(st.sampled_from([None, *BAD]))
    place = data.draw(st.integers(0, samples.size - 1))
    if bad is not None:
        samples.flat[place] = bad
    path = tmp_path_factory.mktemp("layout") / "x.bin"
    found = _written(path, samples, shapes)
    look = found.look(n_channels - 1)
    np.testing.assert_array_equal(held(look, n_samples), samples[:, n_channels - 1])
    if bad is None:
        assert look.suspects == ()
    else:
        ((start, stop),) = look.suspects
        assert start <= place // n_channels < stop


def _written(path: Path, samples, shapes) -> Buffers:
    """The samples in buffers of these shapes, with bytes between them that are nobody's."""
    rows, start, content = [], 0, bytearray(b"head.")
    for n_buffers, length, between in shapes:
        n_bytes = length * samples[0].nbytes
        rows.append(BufferRow(path, len(content), n_bytes + between, n_buffers, length))
        for _ in range(n_buffers):
            content += samples[start : start + length].tobytes() + bytes(between)
            start += length
    path.write_bytes(content)
    return Buffers(tuple(rows), samples.shape[1], samples.dtype)


@given(st.integers(1, 5000), st.integers(1, 70))
def test_a_run_of_samples_is_cut_without_loss(n_samples, sample_bytes):
    rows = list(rows_of_run(Path("x"), 11, n_samples, sample_bytes))
    assert sum(row.n_samples for row in rows) == n_samples
    places = [row.place + k * row.step for row in rows for k in range(row.n_buffers)]
    lengths = [row.buffer_samples * sample_bytes for row in rows for _ in range(row.n_buffers)]
    assert places == [11 + sum(lengths[:k]) for k in range(len(lengths))]


@pytest.fixture
def bad_volts():
    """Three leads, all good but for one value."""
    data = 1e-5 * np.random.default_rng(1).normal(size=(3, 9000))
    data[1, 7123] = np.nan
    return data


def save_fif(path, data, form, **options):
    info = mne.create_info(["Fz", "Cz", "Pz"], RATE, "eeg")
    raw = mne.io.RawArray(data, info, verbose="error")
    raw.save(path, fmt=form, verbose="error", **options)


def save_brainvision(path, data, order):
    """By hand: pybv would write no NaN."""
    path.write_text(
        "Brain Vision Data Exchange Header File Version 1.0\n\n[Common Infos]\n"
        f"DataFile={path.stem}.eeg\nDataFormat=BINARY\nDataOrientation={order}\n"
        f"NumberOfChannels=3\nSamplingInterval={1e6 / RATE:g}\n\n"
        "[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n\n[Channel Infos]\n"
        "Ch1=Fz,,1,µV\nCh2=Cz,,1,µV\nCh3=Pz,,1,µV\n"
    )
    values = (data.T if order == "MULTIPLEXED" else data) * 1e6
    path.with_suffix(".eeg").write_bytes(values.astype("<f4").tobytes())


def save_eeglab(path, data):
    leads = np.array([(name,) for name in ("Fz", "Cz", "Pz")], dtype=[("labels", object)])
    said = {
        "nbchan": 3,
        "pnts": data.shape[1],
        "srate": RATE,
        "trials": 1,
        "xmin": 0.0,
        "xmax": 1.0,
    }
    more = {"data": f"{path.stem}.fdt", "chanlocs": leads, "event": [], "setname": "", "ref": ""}
    scipy.io.savemat(path, {"EEG": said | more}, appendmat=False)
    path.with_suffix(".fdt").write_bytes((data.T * 1e6).astype("<f4").tobytes())


FLOAT_FILES = {
    "single_raw.fif": lambda path, data: save_fif(path, data, "single"),
    "double_raw.fif": lambda path, data: save_fif(path, data, "double", buffer_size_sec=30),
    "split_raw.fif": lambda path, data: save_fif(
        path, np.tile(data, 30), "double", split_size="3MB"
    ),
    "multiplexed.vhdr": lambda path, data: save_brainvision(path, data, "MULTIPLEXED"),
    "vectorized.vhdr": lambda path, data: save_brainvision(path, data, "VECTORIZED"),
    "apart.set": save_eeglab,
}


@pytest.mark.parametrize("name", FLOAT_FILES)
def test_a_float_file_with_a_bad_value_is_refused_before_the_start(name, bad_volts, tmp_path):
    FLOAT_FILES[name](tmp_path / name, bad_volts)
    with pytest.raises(SourceError, match=r"Cz holds nan at sample 7123 \(28\.492 s\)"):
        open_source(str(tmp_path / name))
    # A lead that is not played may be as bad as it likes.
    (session,) = open_source(f"{tmp_path / name}?select=Pz,Fz").sessions()
    sent = np.concatenate([packet.samples for packet in session.packets(100)])[:9000]
    np.testing.assert_allclose(sent, 1e6 * bad_volts[[2, 0]].T, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(FLOAT_FILES.keys() - {"vectorized.vhdr"}))
def test_of_a_good_float_file_nothing_is_read_but_its_bytes(name, bad_volts, tmp_path):
    FLOAT_FILES[name](tmp_path / name, np.nan_to_num(bad_volts))
    assert read_recording(tmp_path / name, SourceOptions()).suspects == ()
