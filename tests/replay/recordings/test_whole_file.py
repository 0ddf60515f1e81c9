"""A file is there whole or not at all, and an error says which file it is about."""

import os
import stat
from pathlib import Path

import pytest

from bci_stream.files import atomic_write

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


def test_a_secret_is_for_its_owner_alone_whatever_was_left_there(tmp_path):
    path = tmp_path / "x.npz"
    left = tmp_path / "x.npz.part"
    left.write_bytes(b"")
    left.chmod(0o666)
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
