"""A folder's files are played in the order of their numbers, and none is passed over in silence."""

import os

import mne
import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.readers.folder import groups_in
from replay.sources import open_source


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(folder, **options):
    groups = groups_in(folder, SourceOptions(**options))
    return [(group.subject, [path.name for path in group.paths]) for group in groups]


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        ("subject1", ["block1.npz", "block2.npz", "block10.npz"]),
        ("subject1", ["1.edf", "02.edf", "10.edf"]),
        ("subject1", ["2020-1-9.edf", "2020-1-10.edf", "2020-11-2.edf"]),
        ("01", [f"sub-01_task-x_run-{run}_eeg.edf" for run in (1, 2, 10)]),
    ],
)
def test_blocks_are_played_in_the_order_of_their_numbers(folder, names, tmp_path):
    touch(tmp_path / folder, *reversed(names))
    assert found(tmp_path / folder) == [(folder, names)]


def test_subjects_come_in_the_order_of_their_numbers_too(tmp_path):
    people = ["p1", "p2", "p10"]
    touch(tmp_path / "files", *(f"{name}.edf" for name in people))
    touch(tmp_path / "folders", *(f"{name}/a.edf" for name in people))
    touch(tmp_path / "bids", *(f"sub-{name}_eeg.edf" for name in people))
    for kind in ("files", "folders", "bids"):
        assert [subject for subject, _ in found(tmp_path / kind)] == people


def test_runs_of_one_series_stay_together_where_numbers_are_written_in_two_ways(tmp_path):
    names = [f"sub-{sub}_run-{run}_eeg.edf" for run in (1, 2) for sub in ("1", "01")]
    touch(tmp_path, *names)
    assert [(subject, len(files)) for subject, files in found(tmp_path)] == [("01", 2), ("1", 2)]


def test_fif_files_that_end_in_a_number_are_recordings_but_those_of_a_split_one(tmp_path):
    touch(tmp_path, "run-1.fif", "run-2.fif", "run-10.fif", "rest_raw.fif", "x-eve.fif")
    touch(tmp_path, "big_raw.fif", "big_raw-1.fif", "big_raw-2.fif")
    assert [name for name, _ in found(tmp_path)] == [
        "big_raw",
        "rest_raw",
        "run-1",
        "run-2",
        "run-10",
    ]


def test_a_split_fif_is_played_whole(tmp_path):
    data = np.arange(400_000.0)[None] * 1e-6
    raw = mne.io.RawArray(data, mne.create_info(["Cz"], 1000, "eeg"), verbose="error")
    raw.save(tmp_path / "big_raw.fif", split_size="3MB", fmt="double", verbose="error")
    assert (tmp_path / "big_raw-1.fif").exists()
    (session,) = open_source(str(tmp_path)).sessions()
    assert session.n_samples == 400_000


def test_the_pieces_of_a_neuracle_recording_without_its_events_are_one_recording(tmp_path):
    pieces = ["data.bdf", "data.1.bdf", "data.2.bdf", "data.10.bdf"]
    touch(tmp_path / "day" / "rec", *pieces)
    assert found(tmp_path / "day" / "rec") == [("rec", ["rec"])]
    touch(tmp_path / "plain", *(name.replace("data", "run") for name in pieces))
    names = ["run.bdf", "run.1.bdf", "run.2.bdf", "run.10.bdf"]
    assert found(tmp_path / "plain", files="blocks") == [("plain", names)]


def test_what_macos_puts_beside_a_file_is_no_recording(tmp_path):
    touch(tmp_path, "run1.edf", "._run1.edf")
    assert found(tmp_path) == [("run1", ["run1.edf"])]


def test_the_current_folder_has_a_name(tmp_path, monkeypatch):
    touch(tmp_path / "subject3", "a.edf", "b.edf")
    monkeypatch.chdir(tmp_path / "subject3")
    assert groups_in(type(tmp_path)("."), SourceOptions())[0].subject == "subject3"


def test_what_is_neither_a_file_nor_a_folder_is_refused(tmp_path):
    pipe = tmp_path / "run.edf"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/null"):
        with pytest.raises(SourceError, match="neither a file nor a folder"):
            open_source(str(path))


@pytest.mark.parametrize("uri", ["", " ", "?track=mi", "file:"])
def test_an_empty_source_is_not_the_current_folder(uri):
    with pytest.raises(SourceError, match=r"names no source.*the current folder is `\.`"):
        open_source(uri)


def test_copies_of_a_bids_folders_runs_are_no_more_runs(tmp_path):
    run = "sub-01/eeg/sub-01_task-x_eeg.edf"
    touch(tmp_path, run, f"derivatives/clean/{run}", f"sourcedata/{run}")
    (group,) = groups_in(tmp_path, SourceOptions())
    assert group.paths == (tmp_path / run,)
    assert found(tmp_path / "derivatives" / "clean") == [("01", ["sub-01_task-x_eeg.edf"])]


@pytest.mark.parametrize("kind", ["eeg", "meg"])
def test_a_fif_that_was_split_as_bids_does_is_one(kind, tmp_path):
    names = [f"sub-01_task-x_split-0{k}_{kind}.fif" for k in (1, 2, 3)]
    touch(tmp_path, *names)
    assert [paths for _, paths in found(tmp_path)] == [names[:1]]


def test_the_second_part_of_a_split_fif_alone_is_a_recording(tmp_path):
    touch(tmp_path, "sub-01_task-x_split-02_eeg.fif")
    assert found(tmp_path) == [("01", ["sub-01_task-x_split-02_eeg.fif"])]


@pytest.mark.parametrize("name", ["geoff", "truncated", "not-corrupt"])
def test_a_file_is_not_damaged_for_its_name(name, tmp_path):
    """MNE quotes it in a warning that it is no usual name for a FIF."""
    info = mne.create_info(["Fz"], 250.0, "eeg")
    raw = mne.io.RawArray(np.zeros((1, 600000)), info, verbose="error")
    with mne.use_log_level("error"):
        raw.save(tmp_path / f"{name}.fif", split_size="2MB")
    assert (tmp_path / f"{name}-1.fif").exists()
    (session,) = open_source(str(tmp_path / f"{name}.fif")).sessions()
    assert session.n_samples == 600000
