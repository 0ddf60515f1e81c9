"""A recording grows beside its name; an older file stays until the new one is complete."""

import os

import pytest

from bci_stream.errors import SourceError
from replay.tools.record import GrowingFile


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "keep.xdf"
    path.write_text("old")
    with GrowingFile(path, overwrite=True) as file:
        file.part.write_text("new")
        assert path.read_text() == "old"
        file.finish()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unfinished_recording_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "keep.xdf"
    path.write_text("old")
    with GrowingFile(path, overwrite=True) as file:
        file.part.write_text("half")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_kept_never_takes_an_older_ones_place(tmp_path):
    path = tmp_path / "keep.xdf"
    with GrowingFile(path, overwrite=True) as file:
        file.part.write_text("first half")
        assert file.keep() == path
    with GrowingFile(path, overwrite=True) as file:
        file.part.write_text("second half")
        assert file.keep() == file.part
    assert (path.read_text(), file.part.read_text()) == ("first half", "second half")


def test_a_second_one_at_the_same_time_is_refused_and_harms_nothing(tmp_path):
    path = tmp_path / "keep.xdf"
    with GrowingFile(path, overwrite=False) as first:
        first.part.write_text("growing")
        with pytest.raises(SourceError, match="being recorded by another command"):
            GrowingFile(path, overwrite=True)
        first.finish()
    assert path.read_text() == "growing"


def test_a_process_that_inherits_the_lock_holds_the_claim(tmp_path):
    """The recorder outlives a command that was killed, and still writes."""
    path = tmp_path / "keep.xdf"
    with GrowingFile(path, overwrite=True) as file:
        inherited = os.dup(file.lock)
        file.part.write_text("growing")
        file.keep()
    os.link(path, file.part)
    with pytest.raises(SourceError, match="being recorded"):
        GrowingFile(path, overwrite=True)
    os.close(inherited)


def test_a_part_that_was_left_behind_is_not_overwritten_unasked(tmp_path):
    path = tmp_path / "keep.xdf"
    left = tmp_path / "keep.xdf.part"
    left.write_text("all that is left")
    with pytest.raises(SourceError, match=r"keep\.xdf\.part is left of a recording"):
        GrowingFile(path, overwrite=False)
    assert left.read_text() == "all that is left"
    with GrowingFile(path, overwrite=True) as file:
        file.part.write_text("new")
        file.finish()
    assert path.read_text() == "new"


def test_a_claim_that_is_refused_leaves_no_part_and_no_lock(tmp_path):
    path = tmp_path / "keep.xdf"
    path.write_text("old")
    for _ in range(2):
        with pytest.raises(SourceError, match="exists already"):
            GrowingFile(path, overwrite=False)
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_can_not_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError, match=r"file/keep\.xdf"):
        GrowingFile(tmp_path / "file" / "keep.xdf", overwrite=False)
