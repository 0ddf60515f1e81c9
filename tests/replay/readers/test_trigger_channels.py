"""A trigger channel's codes are the numbers that its recorder wrote, in every format."""

import edfio
import eeglabio.raw
import mne
import numpy as np
import pytest
import scipy.io

from bci_stream.errors import SourceError
from replay.sources import open_source

pytestmark = pytest.mark.usefixtures("unprobed")

RATE = 250.0
NAMES = ["Fz", "Cz", "Trigger"]
CODES = {50: 242, 101: 11, 700: 65535}


def codes_row(codes=None):
    row = np.zeros(1000)
    for sample, code in (codes or CODES).items():
        row[sample] = code
    return row


def signals(n_leads=2):
    return np.random.default_rng(0).normal(0, 20, (n_leads, 1000))


def triggers(uri):
    (session,) = open_source(str(uri)).sessions()
    ((_, found),) = session.block_triggers()
    return dict(found)


def save_fif(path, row, kind="stim"):
    info = mne.create_info(NAMES, RATE, ["eeg", "eeg", kind])
    rows = np.vstack([1e-6 * signals(), row])
    mne.io.RawArray(rows, info, verbose="error").save(path, fmt="double", verbose="error")
    return path


def test_eeglabs_own_numbers_are_the_codes(tmp_path):
    path = tmp_path / "own.set"
    # Values are given in volts and stored as microvolts, so that the codes are stored unchanged.
    eeglabio.raw.export_set(str(path), np.vstack([signals(), codes_row()]) * 1e-6, RATE, NAMES)
    assert scipy.io.loadmat(path)["data"].max() == 65535
    assert triggers(path) == CODES
    assert triggers(f"{path}?triggers=Trigger") == CODES


def test_a_set_that_mne_wrote_has_mnes_codes(tmp_path):
    path = tmp_path / "mnes.set"
    info = mne.create_info(NAMES, RATE, ["eeg", "eeg", "stim"])
    rows = np.vstack([1e-6 * signals(), codes_row()])
    mne.io.RawArray(rows, info, verbose="error").export(path, verbose="error")
    assert triggers(path) == CODES


def test_samples_apart_from_their_set_are_no_different(tmp_path):
    path = tmp_path / "apart.set"
    data = np.vstack([signals(), codes_row()]).astype("<f4")
    eeglabio.raw.export_set(str(path), data * 1e-6, RATE, NAMES)
    content = scipy.io.loadmat(path, simplify_cells=True)
    kept = {key: value for key, value in content.items() if not key.startswith("__")}
    scipy.io.savemat(path, kept | {"data": "apart.fdt", "datfile": "apart.fdt"})
    data.T.tofile(tmp_path / "apart.fdt")
    assert triggers(path) == CODES


def test_a_lead_called_trigger_is_refused_rather_than_taken_for_silence(tmp_path):
    path = tmp_path / "noise.set"
    eeglabio.raw.export_set(str(path), 1e-6 * signals(3), RATE, NAMES)
    with pytest.raises(SourceError, match="a trigger is a whole number"):
        triggers(path)


@pytest.mark.parametrize("flags", [0x10000, 0x10000 | 0x800000])
def test_an_amplifiers_flags_above_its_codes_are_taken_off_a_stim_channel(flags, tmp_path):
    """As in a FIF that was made from a BDF: held all the time."""
    path = save_fif(tmp_path / "flags_raw.fif", codes_row() + flags)
    assert triggers(path) == CODES


@pytest.mark.parametrize(("code", "kind"), [(70000, "misc"), (1.5, "stim"), (-3, "stim")])
def test_what_is_no_code_is_refused(code, kind, tmp_path):
    path = save_fif(tmp_path / "bad_raw.fif", codes_row({400: code}), kind)
    with pytest.raises(SourceError, match="at sample 400"):
        triggers(path)


def test_a_number_above_all_codes_in_an_array_is_refused(tmp_path):
    path = tmp_path / "high.npz"
    rows = np.vstack([signals(), codes_row({400: 70000})])
    np.savez(path, data=rows, rate=RATE, leads=["Fz", "Cz", "TRIGGER"])
    with pytest.raises(SourceError, match="70000 at sample 400"):
        triggers(path)


BOUNDS = {"physical_range": (-32768, 32767), "digital_range": (-32768, 32767)}


@pytest.mark.parametrize("text", ["bad 1", "BAD_1", "Bad:1", "edge 2", "EDGE 2", "new segment/1"])
def test_bad_stretches_and_edges_are_no_triggers(text, tmp_path):
    signal = edfio.EdfSignal(np.zeros(500), 250, label="C3", physical_dimension="uV", **BOUNDS)
    notes = [edfio.EdfAnnotation(0.4, None, text), edfio.EdfAnnotation(1.0, None, "7")]
    edfio.Edf([signal], data_record_duration=0.2, annotations=notes).write(tmp_path / "x.edf")
    (session,) = open_source(str(tmp_path / "x.edf")).sessions()
    assert session.block_triggers() == [(500, ((250, 7),))]
    assert session.notes == ()
