"""One channel of an EDF or BDF, read alone, is what MNE reads of it."""

import mne
import numpy as np
import pytest

from replay.readers.mne.edf import open_edf, read_edf_header
from replay.sources import open_source

RATE = 250


def write_file(path, rows, rates, bounds):
    import edfio

    bdf = path.suffix == ".bdf"
    signal, document = (edfio.BdfSignal, edfio.Bdf) if bdf else (edfio.EdfSignal, edfio.Edf)
    low, high = bounds
    signals = [
        signal(
            row,
            rate,
            label=f"L{k}",
            physical_dimension="uV",
            physical_range=(low, high),
            digital_range=(-3000, 5000),
        )
        for k, (row, rate) in enumerate(zip(rows, rates, strict=True))
    ]
    notes = [edfio.EdfAnnotation(0.1, None, "a"), edfio.EdfAnnotation(0.7, None, "b")]
    document(signals, data_record_duration=0.2, annotations=notes).write(path)
    return path


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
@pytest.mark.parametrize("bounds", [(-3000, 5000), (-150, 250), (0, 8000)])
def test_any_stretch_of_any_channel_is_mnes(suffix, bounds, tmp_path):
    rows = np.random.default_rng(2).uniform(*bounds, (3, 500))
    path = write_file(tmp_path / f"x{suffix}", rows, [RATE] * 3, bounds)
    raw = mne.io.read_raw(path, preload=True, verbose="error")
    for channel in range(3):
        column = read_edf_header(path).column(f"L{channel}")
        for start, stop in [(0, 500), (0, 1), (49, 51), (123, 377), (499, 500)]:
            expected = raw.get_data(units="uV")[channel, start:stop]
            values = column.values(column.read(start, stop))
            np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-3)


def test_where_channels_differ_in_rate_it_is_left_to_mne(tmp_path):
    rows = [np.zeros(500), np.zeros(250)]
    path = write_file(tmp_path / "x.edf", rows, [250, 125], (-3000, 5000))
    assert read_edf_header(path).column("L0") is None


def test_a_name_that_is_not_there_is_left_to_mne(tmp_path):
    path = write_file(tmp_path / "x.edf", np.zeros((1, 500)), [RATE], (-3000, 5000))
    assert read_edf_header(path).column("L7") is None


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
def test_annotations_read_alone_are_mnes(suffix, tmp_path):
    rows = np.random.default_rng(2).uniform(-3000, 5000, (3, 5000))
    path = write_file(tmp_path / f"x{suffix}", rows, [RATE] * 3, (-3000, 5000))
    ours, theirs = open_edf(read_edf_header(path)), mne.io.read_raw(path, verbose="error")
    assert len(ours.found) == 2
    assert list(ours.found.onset) == list(theirs.annotations.onset)
    assert list(ours.found.description) == list(theirs.annotations.description)


def test_annotations_are_found_without_reading_the_signals(tmp_path, monkeypatch):
    """MNE itself would read all of them."""
    path = write_file(tmp_path / "x.edf", np.zeros((3, 5000)), [RATE] * 3, (-3000, 5000))

    def refuse(*_):
        raise AssertionError("MNE read the signals to find annotations")

    monkeypatch.setattr(mne.io.edf.edf, "_read_segment_file", refuse)
    assert len(open_edf(read_edf_header(path)).found) == 2


def test_an_amplifiers_own_flags_are_no_codes(tmp_path):
    """BioSemi sets bits 17 to 23 of its status words: the highest one makes them negative."""
    import edfio

    flags = -(2**23) | 1 << 20
    status = np.full(500, flags)
    status[100:110] += 11
    path = tmp_path / "x.bdf"
    bounds = {"physical_range": (-(2**23), 2**23 - 1), "digital_range": (-(2**23), 2**23 - 1)}
    signals = [
        edfio.BdfSignal(np.zeros(500), RATE, label="Cz", physical_dimension="uV", **bounds),
        edfio.BdfSignal(status, RATE, label="Status", physical_dimension="Boolean", **bounds),
    ]
    edfio.Bdf(signals, data_record_duration=0.2).write(path)
    session = next(open_source(str(path)).sessions())
    assert session.block_triggers() == [(500, ((100, 11),))]


def test_a_header_that_only_mne_understands_is_left_to_mne(tmp_path):
    path = write_file(tmp_path / "x.edf", np.zeros((1, 500)), [RATE], (-3000, 5000))
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"-3000   ", b"-3000,0 "))
    header = read_edf_header(path)
    assert header.column("L0") is None
    assert header.annotation_columns() == [None]
    assert len(open_edf(header).found) == 2


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
def test_annotations_outside_the_recording_are_left_out_and_noted(suffix, tmp_path):
    import edfio

    path = write_file(tmp_path / f"x{suffix}", np.zeros((1, 500)), [RATE], (-3000, 5000))
    document = (edfio.read_bdf if suffix == ".bdf" else edfio.read_edf)(path)
    onsets = {0.0: "5", 1.0: "6", 1.996: "7", 2.0: "8", 99.5: "9"}
    document.set_annotations([edfio.EdfAnnotation(at, None, text) for at, text in onsets.items()])
    document.write(path)
    (session,) = open_source(str(path)).sessions()
    assert session.block_triggers() == [(500, ((0, 5), (250, 6), (499, 7)))]
    assert "2 events lie outside the recording and are left out" in " ".join(session.notes)
