"""A FIF whose tags lead in circles is refused before MNE follows them."""

import struct

import pytest

from bci_stream.errors import SourceError
from replay.readers.mne.other_formats import check_tags

TAG = struct.Struct(">iIii")
FRONT = TAG.pack(100, 31, 44, 0) + bytes(44)
"""A first tag that covers the place where a directory would be named."""


def write(path, *tags):
    """tags: (size, next); the last one ends the file."""
    body = b"".join(
        TAG.pack(300, 4, size, following) + bytes(max(size, 0)) for size, following in tags
    )
    path.write_bytes(FRONT + body)
    return path


@pytest.mark.parametrize("last", [-1, 0])
def test_tags_in_sequence_are_accepted(last, tmp_path):
    check_tags(write(tmp_path / "x.fif", *[(4, 0)] * 5000, (0, last)))


@pytest.mark.parametrize("back", [60, 1, len(FRONT) + 40])
def test_a_tag_that_leads_back_or_to_itself_is_refused(back, tmp_path):
    with pytest.raises(SourceError, match=f"leads back to {back}"):
        check_tags(write(tmp_path / "x.fif", (4, 0), (4, 0), (0, back)))


@pytest.mark.parametrize("size", [-TAG.size, -TAG.size - 1])
def test_a_size_that_leads_back_is_refused(size, tmp_path):
    with pytest.raises(SourceError, match="leads back"):
        check_tags(write(tmp_path / "x.fif", (size, 0)))
