"""Atomic writes, their errors, and the state folder."""

import os
import stat
from pathlib import Path

import pytest

from bci_stream.files import atomic_write, state_dir

FULL = Path("/dev/full")


def test_a_write_that_fails_leaves_the_old_file_and_no_part(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"old")

    def fail(file):
        file.write(b"half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        atomic_write(path, fail)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_file_is_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"")
    path.chmod(0o666)
    atomic_write(path, lambda file: file.write(b"truth"), secret=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_says_which_file():
    if not FULL.exists():
        pytest.skip(f"this system has no {FULL}")
    with pytest.raises(OSError, match=f"No space left on device: '{FULL}'"):
        atomic_write(FULL, lambda file: file.write(b"x" * 99999))
    assert FULL.is_char_device()


def test_a_device_is_written_to_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write(pipe, lambda file: file.write(b"through"))
    assert os.read(reader, 99) == b"through"
    assert pipe.is_fifo()
    os.close(reader)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/x\.png'"):
        atomic_write(tmp_path / "nowhere" / "x.png", lambda file: None)


def test_without_overwrite_the_first_of_two_writers_wins(tmp_path):
    for content in (b"first", b"second"):
        atomic_write(tmp_path / "key", lambda file: file.write(content), overwrite=False)  # noqa: B023
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("key", b"first")]


def test_the_state_folder_is_where_it_has_always_been(tmp_path, monkeypatch):
    monkeypatch.delenv("BCI_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir() == tmp_path / "bci-stream"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_dir() == tmp_path / ".local" / "state" / "bci-stream"
    monkeypatch.setenv("BCI_HOME", str(tmp_path / "own"))
    assert state_dir() == tmp_path / "own"
