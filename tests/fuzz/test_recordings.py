"""Damaged recordings of every format: they are played, or refused with one of our errors."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_formats import WRITERS as FORMATS
from small_recordings import PARAMETERS, WRITERS, write_recording

from replay.model.options import SourceOptions
from replay.player.plan import make_plan
from replay.sources import open_source
from tests.fuzz.damage import damaged, examples, read_within_limits

IN_A_CHILD = ("run.set", "run.mat", "run.pkl")
"""Each example starts a process of its own, which tries the file first."""
QUICK = tuple(name for name in WRITERS if name not in IN_A_CHILD)


def play(uri: str, track: str | None) -> None:
    """Play all packets of a source, and read all its triggers."""
    plan = make_plan(open_source(uri, SourceOptions(track=track)), track)
    for _ in plan.packets():
        pass
    for session in plan.sessions:
        session.block_triggers()


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory) -> dict[str, list[Path]]:
    """The files of each small recording; the first is the one that is opened."""
    found = {}
    for name in WRITERS:
        folder = tmp_path_factory.mktemp("whole")
        first = write_recording(name, folder)
        found[name] = [first, *sorted(path for path in folder.iterdir() if path != first)]
    return found


@pytest.fixture(scope="module")
def other_files(tmp_path_factory) -> dict[str, list[Path]]:
    """As `whole_files`, of formats that another library reads."""
    found = {}
    for form, write in FORMATS.items():
        folder = tmp_path_factory.mktemp("whole")
        first = write(folder)
        others = (path for path in folder.rglob("*") if path.is_file() and path != first)
        found[form] = [first, *sorted(others)]
    return found


class Copies:
    """A new folder with a copy of a recording for each example: a mapped file must not be changed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def make(self, files: list[Path], part: int, content: bytes) -> Path:
        """The first one of the copy, which may be a folder; content: of the file with this number."""
        shutil.rmtree(self._folder / f"copy{self._count}", ignore_errors=True)
        self._count += 1
        folder = self._folder / f"copy{self._count}"
        folder.mkdir()
        for number, file in enumerate(files):
            if file.is_file():
                copy = folder / file.relative_to(files[0].parent)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content if number == part else file.read_bytes())
        return folder / files[0].name


@pytest.fixture
def copies(tmp_path) -> Copies:
    return Copies(tmp_path)


def fuzz(name: str, files: list[Path], copies: Copies, data: st.DataObject) -> None:
    part = data.draw(st.integers(0 if files[0].is_file() else 1, len(files) - 1))
    content = data.draw(damaged(files[part].read_bytes()))
    track = data.draw(st.sampled_from([None, "mi"]))
    uri = f"{copies.make(files, part, content)}{PARAMETERS.get(name, '')}"
    read_within_limits(lambda: play(uri, track))


@pytest.mark.parametrize("name", QUICK)
@examples(20)
@given(data=st.data())
def test_a_damaged_recording_is_played_or_refused(name, whole_files, copies, data):
    fuzz(name, whole_files[name], copies, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_A_CHILD)
@examples(4)
@given(data=st.data())
def test_a_damaged_recording_that_a_child_reads_is_played_or_refused(
    name, whole_files, copies, data
):
    fuzz(name, whole_files[name], copies, data)


@pytest.mark.filterwarnings("ignore")  # of libraries that are imported when a file is opened
@pytest.mark.parametrize("form", [form for form in FORMATS if form != "EEGLAB 7.3"])
@examples(8)
@given(data=st.data())
def test_a_damaged_recording_of_another_format_is_played_or_refused(
    form, other_files, copies, data
):
    fuzz(form, other_files[form], copies, data)


@pytest.mark.slow
@examples(4)
@given(data=st.data())
def test_a_damaged_matlab_73_file_is_played_or_refused(copies, tmp_path_factory, data):
    h5py = pytest.importorskip("h5py")
    path = tmp_path_factory.mktemp("whole") / "run.mat"
    with h5py.File(path, "w") as file:
        file["data"] = np.random.default_rng(0).normal(size=(500, 3))
        file["rate"] = 250.0
    content = data.draw(damaged(path.read_bytes(), head=0.3))
    uri = str(copies.make([path], 0, content))
    read_within_limits(lambda: play(uri, None))


@examples(20)
@given(data=st.data())
def test_a_damaged_neuracle_folder_is_played_or_refused(whole_files, copies, data):
    (bdf,) = whole_files["run.bdf"]
    part = data.draw(st.integers(0, 1))
    content = data.draw(damaged(bdf.read_bytes()))
    first = copies.make([bdf, bdf], 0, bdf.read_bytes() if part else content)
    first.rename(first.with_name("data.bdf"))
    first.with_name("evt.bdf").write_bytes(content if part else bdf.read_bytes())
    read_within_limits(lambda: play(str(first.parent), None))


@examples(20)
@given(content=st.binary(max_size=400), suffix=st.sampled_from([".edf", ".fif", ".xdf", ".npy"]))
def test_any_bytes_under_any_suffix_are_refused(tmp_path, content, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    read_within_limits(lambda: play(str(path), None))
    os.unlink(path)
