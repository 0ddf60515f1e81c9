"""One channel of an EDF or BDF, read alone, is what MNE reads of it."""

import mne
import numpy as np
import pytest

from replay.readers.edf_column import find_column

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
        column = find_column(path, f"L{channel}")
        for start, stop in [(0, 500), (0, 1), (49, 51), (123, 377), (499, 500)]:
            expected = raw.get_data(units="uV")[channel, start:stop]
            np.testing.assert_allclose(column.read(start, stop), expected, rtol=1e-6, atol=1e-3)


def test_where_channels_differ_in_rate_it_is_left_to_mne(tmp_path):
    rows = [np.zeros(500), np.zeros(250)]
    path = write_file(tmp_path / "x.edf", rows, [250, 125], (-3000, 5000))
    assert find_column(path, "L0") is None


def test_a_name_that_is_not_there_is_left_to_mne(tmp_path):
    path = write_file(tmp_path / "x.edf", np.zeros((1, 500)), [RATE], (-3000, 5000))
    assert find_column(path, "L7") is None
    assert find_column(path.with_suffix(".fif"), "L0") is None
