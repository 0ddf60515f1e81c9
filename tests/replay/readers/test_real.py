"""Real recordings replay: what comes out is what MNE, pyxdf and numpy find in the same files."""

from pathlib import Path

import numpy as np
import pytest

from replay.sources import open_source
from tracks.common.truth import read_truth
from tracks.registry import TRACKS

MI_EVENTS = "T1=11+12@2+13@3+241@4,T2=21+22@2+23@3+241@4,T0=0"


def only(uri):
    (session,) = open_source(str(uri)).sessions()
    return session


def everything(session):
    return np.concatenate([packet.samples for packet in session.packets(40)])


def known(folder: Path, *names: str) -> list[Path]:
    """The recordings that these tests were written for: others may be in the folder."""
    files = [folder / name for name in names]
    missing = [str(path) for path in files if not path.exists()]
    if missing:
        pytest.skip(f"no {', '.join(missing)}")
    return files


def triggers(session):
    return [trigger for _, own in session.block_triggers() for trigger in own]


@pytest.mark.parametrize(
    "pattern", ["mi/S001*.edf", "ssvep/subject01/*_raw.fif", "ecog/*testsub*.vhdr"]
)
def test_every_sample_is_mnes_in_float32_microvolts(pattern, real_data):
    import mne

    files = sorted(real_data.glob(pattern))
    if not files:
        pytest.skip(f"no {pattern} in {real_data}")
    for path in files[:2]:
        raw = mne.io.read_raw(path, preload=True, verbose="error")
        expected = (raw.get_data() * 1e6).astype(np.float32).T
        np.testing.assert_array_equal(everything(only(path)), expected)


def test_eegmmidb_becomes_a_labelled_mi_recording(real_data):
    (path,) = known(real_data / "mi", "S001R04.edf")
    session = only(f"{path}?events={MI_EVENTS}&track=mi")
    truth = read_truth(TRACKS["mi"], session.rate, session.block_triggers())
    assert len(truth["blocks"][0]) == 15
    assert session.rate == 1000


def test_events_beside_a_fif_are_found(real_data):
    import mne

    files = sorted(real_data.glob("ssvep/subject01/*_raw.fif"))
    if not files:
        pytest.skip(f"no ssvep recordings in {real_data}")
    table = mne.read_events(str(files[0]).replace("_raw.fif", "-eve.fif"), verbose="error")
    raw = mne.io.read_raw_fif(files[0], verbose="error")
    expected = [(int(s) - raw.first_samp, int(code)) for s, _, code in table]
    assert triggers(only(files[0])) == expected


def test_the_subjects_of_a_folder_are_its_subfolders(real_data):
    people = [f"subject0{number}" for number in range(1, 6)]
    known(real_data / "ssvep", *people)
    found = {s.subject: s for s in open_source(str(real_data / "ssvep")).sessions()}
    assert set(people) <= set(found)
    assert all(len(found[name].blocks) == 2 for name in people)


def test_the_speller_is_an_erp_recording_whose_letters_are_read(real_data):
    (path,) = known(real_data / "p300", "bci2000_6x6_run1.npz")
    session = only(f"{path}?track=erp")
    truth = read_truth(TRACKS["erp"], session.rate, session.block_triggers())
    letters = [TRACKS["erp"].classes[TRACKS["erp"].read(label)] for label in truth["blocks"][0]]
    with np.load(path) as file:
        assert "".join(letters) == str(file["text"])


def test_emotion_clips_are_blocks_with_their_labels(real_data):
    session = only(*known(real_data / "emotion", "p02.npz"))
    truth = read_truth(TRACKS["emotion"], session.rate, session.block_triggers())
    assert [clip["label"] for clip in truth["clips"]] == list(range(9))
    assert [clip["block"] for clip in truth["clips"]] == list(range(9))


def test_bids_kinds_are_taken_from_the_table(real_data):
    (path,) = known(
        real_data / "ecog", "sub-testsub_ses-EphysMedOff_task-gripforce_run-0_ieeg.vhdr"
    )
    kinds = {lead.name: lead.kind for lead in only(path).leads}
    assert kinds["ECOG_RIGHT_0"] == "ECOG"
    assert kinds["LFP_RIGHT_0"] == "DBS"
    assert kinds["MOV_RIGHT"] == "MISC"


def test_xdf_examples_replay_as_pyxdf_reads_them(real_data):
    import pyxdf

    for path in known(
        real_data / "xdf",
        "clock_resets.xdf",
        "empty_streams.xdf",
        "minimal.xdf",
        "ssvep_example.xdf",
        "sub-P001_ses-S001_task-P300Checkboard_run-001_eeg.xdf",
    ):
        session = only(path)
        streams, _ = pyxdf.load_xdf(str(path))
        lengths = {len(stream["time_stamps"]) for stream in streams}
        assert session.n_samples in lengths
        assert len(everything(session)) == session.n_samples


def test_a_clock_reset_begins_a_block(real_data):
    assert len(only(*known(real_data / "xdf", "clock_resets.xdf")).blocks) == 2
