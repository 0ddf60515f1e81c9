"""Formats that MNE or another library reads: as these read them, or refused in words."""

import gc
import warnings
from pathlib import Path

import mne
import numpy as np
import pytest
import small_formats
from small_formats import EVENTS, NAMES, WRITERS, N

from bci_stream.errors import SourceError
from replay.readers.formats import FORMATS, PARTS_OF
from replay.readers.guard import suffix_of
from replay.sources import open_source

BY_MNE = ("Persyst", "eXimia", "Nicolet", "NEDF", "SNIRF", "BrainVision .ahdr", "EEGLAB 7.3",
          "FIF, compressed", "EyeLink", "BOXY", "OPM", "EGI MFF",
          "Artemis123", "NIRx", "Curry")  # fmt: skip
OPENERS = {
    "Nicolet": lambda path: mne.io.read_raw_nicolet(path, "eeg", verbose="error"),
    "EyeLink": lambda path: mne.io.read_raw_eyelink(path, verbose="error"),
}
UNSCALED = ("SNIRF", "EyeLink", "BOXY", "OPM", "NIRx", "Artemis123")


def played(uri: str) -> tuple[np.ndarray, list[tuple[int, int]], object]:
    (session,) = open_source(uri).sessions()
    packets = list(session.packets(100))
    triggers = [(p.start + at, int(code)) for p in packets for at, code in p.triggers]
    return np.concatenate([packet.samples for packet in packets]).T, triggers, session


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", BY_MNE)
def test_samples_are_those_of_mne(form, tmp_path):
    path = WRITERS[form](tmp_path)
    raw = OPENERS.get(form, lambda path: mne.io.read_raw(path, verbose="error"))(path)
    samples, _, session = played(str(path))
    kept = [raw.ch_names.index(lead.name) for lead in session.leads]
    factor = 1.0 if form in UNSCALED else 1e6
    np.testing.assert_allclose(samples, raw.get_data()[kept] * factor, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    "form",
    ["Persyst", "NEDF", "BrainVision .ahdr", "EEGLAB 7.3", "BCI2000", "NWB", "FIF, compressed",
     "EGI MFF", "Artemis123", "NIRx", "Curry"],
)  # fmt: skip
def test_events_are_on_their_samples(form, tmp_path):
    _, triggers, _ = played(str(WRITERS[form](tmp_path)))
    assert triggers == list(EVENTS)


def test_no_file_of_pynwb_stays_open(tmp_path):
    """Its finaliser warns at any later moment, in the reading of another file for example."""
    played(str(WRITERS["NWB"](tmp_path)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(w.message) for w in caught if "NWBHDF5IO" in str(w.message)] == []


def test_the_channel_that_a_v_amp_adds_is_left_out(tmp_path):
    path = WRITERS["BrainVision .ahdr"](tmp_path)
    samples, _, session = played(str(path))
    assert [lead.name for lead in session.leads] == list(NAMES)
    np.testing.assert_allclose(samples, small_formats.rows() * 0.5)
    data = path.with_suffix(".eeg")
    data.write_bytes(data.read_bytes()[:-2])
    with pytest.raises(SourceError, match=r"is cut off: .* samples of 8 bytes"):
        open_source(str(path))


def test_nothing_is_printed_while_an_mff_is_read(tmp_path, capsys):
    played(str(WRITERS["EGI MFF"](tmp_path)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("form", "factor"), [("BCI2000", 0.5), ("NWB", 0.5), ("NSx", 0.5), ("Curry", 1)]
)
def test_samples_are_those_that_were_written_in_microvolts(form, factor, tmp_path):
    samples, _, session = played(str(WRITERS[form](tmp_path)))
    assert [lead.name for lead in session.leads] == list(NAMES)
    np.testing.assert_allclose(samples, small_formats.rows() * factor, rtol=1e-6)
    assert session.rate == small_formats.RATE


def test_another_state_of_bci2000_is_named(tmp_path):
    path = WRITERS["BCI2000"](tmp_path)
    with pytest.raises(SourceError, match="no state 'Other' for triggers; it has StimulusCode"):
        open_source(f"{path}?triggers=Other")


def test_fnirs_is_auxiliary(tmp_path):
    _, triggers, session = played(str(WRITERS["SNIRF"](tmp_path)))
    assert {(lead.kind, lead.unit) for lead in session.leads} == {("MISC", "none")}
    assert triggers == [(100, 7)]


def test_what_is_no_eeg_is_auxiliary_and_its_events_are_kept(tmp_path):
    _, triggers, session = played(f"{WRITERS['EyeLink'](tmp_path)}?events=stimulus=11")
    kinds = [(lead.name, lead.kind, lead.unit) for lead in session.leads]
    assert kinds[2] == ("pupil_left", "PUPIL", "none")
    assert (triggers, session.notes) == ([(50, 11)], ())
    _, triggers, session = played(str(WRITERS["BOXY"](tmp_path)))
    assert {lead.kind for lead in session.leads} == {"MISC"}
    assert triggers == [(30, 7)]


def test_a_suffix_of_other_files_too_is_read_only_where_the_file_is_named(tmp_path):
    for form in ("EyeLink", "BOXY", "OPM", "FIF, compressed"):
        WRITERS[form](tmp_path)
    (session,) = open_source(str(tmp_path)).sessions()
    assert session.subject == "x_raw"
    (tmp_path / "x.txt").write_text("notes of the experiment")
    with pytest.raises(SourceError, match="not one of BOXY"):
        open_source(str(tmp_path / "x.txt"))
    (tmp_path / "y.bin").write_bytes(b"1234")
    with pytest.raises(SourceError, match=r"Artemis123 has X\.txt beside X\.bin"):
        open_source(str(tmp_path / "y.bin"))
    (tmp_path / "y.hdr").write_text("[GeneralInfo]")
    with pytest.raises(SourceError, match="can't be read as NIRx"):
        open_source(str(tmp_path / "y.hdr"))


@pytest.mark.parametrize(
    ("name", "instead"), [("x.cdt.dpa", ".cdt"), ("x.wl1", ".hdr"), ("x.fdt", ".set")]
)
def test_a_part_of_a_recording_names_the_file_to_open(tmp_path, name, instead):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(SourceError, match=rf"is a part of a recording: open .*\({instead}\)"):
        open_source(str(tmp_path / name))


def test_every_suffix_that_mne_reads_is_read_here_or_refused_as_a_part():
    from mne.io._read_raw import _get_supported

    for suffix in _get_supported():
        path = Path(f"x{suffix}")
        assert suffix_of(path) in FORMATS or suffix_of(path) in PARTS_OF, suffix


def test_a_continuous_recording_of_fieldtrip_is_read_and_its_trials_are_refused(tmp_path):
    from scipy.io import savemat

    def cells(*items):
        made = np.empty((1, len(items)), dtype=object)
        made[0] = items
        return made

    seconds, labels = np.arange(N)[None] / 250, cells(*NAMES).T
    for trials, fields in ((1, {"fsample": 250.0}), (1, {}), (2, {})):
        data = {"label": labels, "trial": cells(*[small_formats.rows()] * trials), **fields}
        savemat(tmp_path / "x.mat", {"data": {**data, "time": cells(*[seconds] * trials)}})
        if trials == 1:
            samples, _, session = played(str(tmp_path / "x.mat"))
            np.testing.assert_allclose(samples, small_formats.rows(), rtol=1e-6)
            assert (session.rate, [lead.name for lead in session.leads]) == (250, list(NAMES))
    with pytest.raises(SourceError, match=r"x\.mat holds 2 trials of FieldTrip"):
        open_source(str(tmp_path / "x.mat"))


def test_a_marker_past_the_end_is_left_out_and_counted(tmp_path):
    _, _, session = played(str(WRITERS["BrainVision .ahdr"](tmp_path)))
    assert f"1 of 4 markers lie past the end of the data (sample {N})" in " ".join(session.notes)


def test_headings_of_a_brainvision_header_may_have_any_capitals(tmp_path):
    path = WRITERS["BrainVision .ahdr"](tmp_path)
    samples, triggers, session = played(str(path))
    text = path.read_text()
    other = text.replace("[Common Infos]", "[COMMON infos]").replace("[Channel I", "[channel i")
    path.write_text(other.replace("[Binary Infos]", "[binary infos]"))
    assert path.read_text() != text
    again, same_triggers, same = played(str(path))
    np.testing.assert_array_equal(again, samples)
    assert (same_triggers, same.leads) == (triggers, session.leads)


def test_files_of_a_brainvision_header_may_have_any_capitals(tmp_path):
    path = WRITERS["BrainVision .ahdr"](tmp_path)
    samples, triggers, _ = played(str(path))
    path.with_suffix(".eeg").rename(tmp_path / "RUN.EEG")
    path.with_suffix(".amrk").rename(tmp_path / "Run.amrk")
    again, same, _ = played(str(path))
    np.testing.assert_array_equal(again, samples)
    assert same == triggers


def test_channels_of_one_name_that_mne_does_not_read_are_refused_in_words(tmp_path):
    path = WRITERS["BrainVision .ahdr"](tmp_path)
    path.write_text(path.read_text().replace("=CZ,", "=C3,"))
    with pytest.raises(SourceError, match="several of its channels are named C3"):
        open_source(str(path))


def test_parameters_are_passed_to_mnes_reader(tmp_path):
    path = WRITERS["Nicolet"](tmp_path)
    _, _, session = played(f"{path}?ch_type=seeg&misc=CZ")
    assert [lead.kind for lead in session.leads] == ["SEEG", "MISC", "SEEG"]


def test_a_parameter_of_another_format_is_refused(tmp_path):
    path = WRITERS["Persyst"](tmp_path)
    with pytest.raises(SourceError, match=r"\?data_format= is for CNT, and not for Persyst"):
        open_source(f"{path}?data_format=int32")


def test_data_files_of_a_header_are_no_recordings_of_their_own(tmp_path):
    for form in ("Persyst", "BrainVision .ahdr"):
        WRITERS[form](tmp_path)
    subjects = [session.subject for session in open_source(f"{tmp_path}?files=subjects").sessions()]
    assert len(subjects) == 2


def test_epochs_of_eeglab_are_refused_in_words(tmp_path):
    from scipy.io import savemat

    eeg = {"nbchan": 2.0, "trials": 5.0, "pnts": 100.0, "srate": 250.0, "xmin": 0.0, "xmax": 0.4,
           "data": np.zeros((2, 100, 5), dtype=np.float32), "event": [], "epoch": [],
           "chanlocs": np.array([("C3",), ("C4",)], dtype=[("labels", "O")])}  # fmt: skip
    savemat(tmp_path / "x.set", {"EEG": eeg}, appendmat=False)
    with pytest.raises(SourceError, match="it holds 5 epochs, and no continuous recording"):
        open_source(str(tmp_path / "x.set"))


def test_annotations_without_a_signal_are_refused_in_words(tmp_path):
    import edfio

    edfio.Edf([], annotations=[edfio.EdfAnnotation(1, None, "Sleep stage W")]).write(
        tmp_path / "x.edf"
    )
    with pytest.raises(SourceError, match="annotations only, and no signal"):
        open_source(str(tmp_path / "x.edf"))


def test_the_package_that_a_format_needs_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.readers.mne.any_format.find_spec", lambda _: None)
    (tmp_path / "x.cdt").write_bytes(b"x" * 300)
    with pytest.raises(
        SourceError, match="format Curry, which needs another package: `pip install"
    ):
        open_source(str(tmp_path / "x.cdt"))


@pytest.mark.parametrize(
    "name", ["x.cdt", "x.eeg", "x.nxe", "x.data", "x.dat", "x.con", "x.cnt", "x.lay"]
)
def test_a_message_has_no_source_path(name, tmp_path):
    begin = b"RIFF" if name == "x.cnt" else b""
    (tmp_path / name).write_bytes(begin + bytes(range(256)) * 4 + b"x")
    with pytest.raises(SourceError) as caught:
        played(str(tmp_path / name))
    assert "site-packages" not in str(caught.value)


def _testing_files() -> list[str]:
    """MNE's own testing files, where they are present (`mne.datasets.testing`)."""
    folder = mne.datasets.testing.data_path(download=False)
    wanted = ("*.vhdr", "*.ahdr", "*.cnt", "*.cdt", "*.lay", "*.nedf", "*.nxe", "*.mff", "*.data",
              "*.snirf", "*.ns[1-6]", "*.set", "*.edf", "*.bdf", "*.gdf", "*.dap", "*.EEG",
              "*.fif.gz", "*.hdr", "*.asc", "*_meg.bin")  # fmt: skip
    return (
        sorted(str(path) for pattern in wanted for path in folder.rglob(pattern))
        if folder.name
        else []
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", _testing_files() or [None])
def test_a_testing_file_of_mne_opens_or_is_refused_in_words(path):
    if path is None:
        pytest.skip("MNE's testing files are not here: mne.datasets.testing.data_path()")
    try:
        raw = mne.io.read_raw(path, verbose="error")
    except Exception:  # noqa: BLE001 - what MNE does not open need not open here
        pytest.skip("MNE does not open it")
    (session, *_) = open_source(path).sessions()
    assert session.n_samples == raw.n_times
