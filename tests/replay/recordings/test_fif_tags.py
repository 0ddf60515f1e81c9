"""Tags that stand alike behind each other are found at once, and are the ones found step by step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from replay.readers.mne.fif import HEADER, LONGEST_LINE, Tag, walk_tags

FRONT = bytes(HEADER.pack(100, 31, 44, 0)) + bytes(44)
"""A first tag that covers the place where a directory would be named."""


@st.composite
def tags(draw):
    """Some tag, how often it stands there, and how many bytes that belong to no tag follow it."""
    kind, size = draw(st.sampled_from([300, 301])), draw(st.sampled_from([0, 4, 20]))
    many = st.sampled_from([1, 2, 3, 17, LONGEST_LINE - 1, 2 * LONGEST_LINE, 3 * LONGEST_LINE + 1])
    return kind, size, draw(many), draw(st.sampled_from([0, 0, 5]))


def write(folder, drawn, last=-1):
    """A file of tags, and each of them by itself."""
    content, each = bytearray(FRONT), [Tag(100, 31, 44, 0, 0)]
    for kind, size, count, unused in [*drawn, (108, 0, 1, 0)]:
        for number in range(count):
            pos = len(content)
            jumps = number == count - 1 and unused
            following = pos + HEADER.size + size + unused if jumps else 0
            if kind == 108:
                following = last
            content += HEADER.pack(kind, 4, size, following) + bytes(size)
            each.append(Tag(kind, 4, size, following, pos))
        content += bytes(unused)
    path = folder / "x.fif"
    path.write_bytes(content)
    return path, each


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tags")


@given(drawn=st.lists(tags(), max_size=5))
def test_no_tag_is_missed_or_made_up(folder, drawn):
    path, each = write(folder, drawn)
    found = walk_tags(path)
    assert [one for tag in found for one in tag.each()] == each
    assert all(tag.end == tag.each()[-1].end for tag in found)


def test_thousands_alike_are_one(folder):
    path, _ = write(folder, [(300, 20, 5000, 0)])
    assert [(tag.kind, tag.alike) for tag in walk_tags(path)] == [(100, 1), (300, 5000), (108, 1)]


@pytest.mark.parametrize("back", [60, 1])
def test_a_tag_that_leads_back_is_refused(folder, back):
    path, _ = write(folder, [(300, 4, 40, 0)], last=back)
    with pytest.raises(SourceError, match=f"leads back to {back}"):
        walk_tags(path)


def test_a_file_may_end_without_a_last_tag(folder):
    path, each = write(folder, [(300, 4, 40, 0)], last=0)
    assert walk_tags(path)[-1] == each[-1]


def test_a_tag_that_leads_to_itself_is_not_taken_for_one_more(folder):
    """Both have the same header: it leads right behind the first, which is where the second stands."""
    content = bytearray(FRONT)
    content += 2 * HEADER.pack(300, 4, 0, len(FRONT) + HEADER.size)
    path = folder / "self.fif"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=f"at byte {len(FRONT) + HEADER.size} leads back"):
        walk_tags(path)


@pytest.mark.parametrize("size", [-HEADER.size, -HEADER.size - 1])
def test_a_size_that_leads_back_is_refused(folder, size):
    path = folder / "negative.fif"
    path.write_bytes(FRONT + 3 * HEADER.pack(300, 4, size, 0))
    with pytest.raises(SourceError, match="leads back"):
        walk_tags(path)


def test_a_size_that_leads_before_the_file_ends_the_walk(folder):
    path = folder / "negative.fif"
    path.write_bytes(FRONT + 3 * HEADER.pack(300, 4, -(2**31), 0))
    assert [tag.size for tag in walk_tags(path)] == [44, -(2**31)]
