"""FIF as MNE opens it, but for one thing: MNE does not look for the buffers of samples one by one.

It would seek and read for every tag of a file, and an hour of EEG has thousands. All were seen already
while `fif_tags` looked for circles: so MNE is handed a file without samples whose directory tells of one
long buffer, and afterwards where the buffers really stand.
"""

import os
import struct
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import mne
import numpy as np

from bci_stream.errors import SourceError

HEADER = struct.Struct(">iIii")  # kind, type, size, where the next one is
IN_SEQUENCE = 0
DIRECTORY_PLACE = 52
LONGEST_LINE = 256
"""So many headers are looked at together: what was read too far, where they end, costs little."""


class Tag(NamedTuple):
    """What stands at pos: a header, then size bytes. Called as MNE calls it, which reads them too.

    alike: how many of them stand there, one right behind the other, with the same header.
    """

    kind: int
    type: int
    size: int
    next: int
    pos: int
    alike: int = 1

    @property
    def end(self) -> int:
        return self.pos + self.alike * (HEADER.size + self.size)

    def each(self) -> "list[Tag]":
        kind, form, size, following, pos, _ = self
        places = range(pos, self.end, HEADER.size + size)
        return [Tag(kind, form, size, following, place) for place in places]


def walk_tags(path: Path) -> list[Tag]:
    """Every tag of a file, in order; none where the file has a directory, which MNE reads instead."""
    tags: list[Tag] = []
    with path.open("rb") as file:
        number, size = file.fileno(), os.fstat(file.fileno()).st_size
        directory = int.from_bytes(os.pread(number, 4, DIRECTORY_PLACE), "big", signed=True)
        if 0 < directory <= size - HEADER.size:
            return tags
        place = 0
        while len(head := os.pread(number, HEADER.size, place)) == HEADER.size:
            kind, form, length, leads_to = HEADER.unpack(head)
            tag = Tag(kind, form, length, leads_to, place)
            in_sequence = tag.next == IN_SEQUENCE
            following = tag.end if in_sequence else tag.next
            if 0 <= following <= place:
                raise SourceError(
                    f"{path} is damaged: its tag at byte {place} leads back to {following}"
                )
            if in_sequence and following > place:
                tag = tag._replace(alike=_count_alike(number, head, tag))
                following = tag.end
            tags.append(tag)
            if following < 0:
                break
            place = following
    return tags


def _count_alike(number: int, head: bytes, tag: Tag) -> int:
    """How many times this header stands there: an hour of EEG has thousands of buffers, all alike.

    They are looked at in lines, since a loop with one thing in it is the fastest that Python has.
    """
    count, line, step = 1, 1, HEADER.size + tag.size
    pread, n_bytes = os.pread, HEADER.size
    while True:
        begin = tag.pos + count * step
        heads = [pread(number, n_bytes, at) for at in range(begin, begin + line * step, step)]
        if heads.count(head) < line:
            return count + next(k for k, other in enumerate(heads) if other != head)
        count += line
        line = min(2 * line, LONGEST_LINE)


FILE_ID, DIRECTORY_POINTER, DIRECTORY, REFERENCE_ROLE = 100, 101, 102, 115
SAMPLES, SKIP = 300, 301
INT, DIRECTORY_ENTRIES = 3, 32
MOST_BYTES = (1 << 31) - 1
"""A directory has four bytes for a size."""


class LazyFif(mne.io.Raw):  # type: ignore[misc]  # MNE tells no types
    """A FIF file whose samples stand in equally typed buffers, one after the other.

    is_whole: whether each of its buffers holds whole samples.
    """

    def __init__(self, path: Path, tags: list[Tag]) -> None:
        super().__init__(BytesIO(_without_samples(path, tags)), preload=True, verbose="warning")
        (extra,) = self._raw_extras
        samples = [tag for tag in tags if tag.kind == SAMPLES]
        sizes = np.repeat([tag.size for tag in samples], [tag.alike for tag in samples])
        lengths = sizes * self.n_times // sizes.sum()
        self.is_whole = bool((lengths * sizes.sum() == sizes * self.n_times).all())
        extra["filename"], extra["ent"] = path, [one for tag in samples for one in tag.each()]
        extra["bounds"] = extra["bounds"][0] + np.concatenate([[0], np.cumsum(lengths)])

    def _preload_data(self, preload: Any) -> None:
        """MNE insists on a preload of what is no path; there is no sample in it."""
        self.preload = False


def open_fif(path: str, preload: bool = False) -> Any:
    """A raw object of MNE, opened by MNE itself wherever ours can't be had."""
    return _open_plain(Path(path)) or mne.io.read_raw_fif(path, preload=preload)


def _open_plain(path: Path) -> LazyFif | None:
    tags = walk_tags(path)
    if not _is_plain(tags, path.stat().st_size):
        return None
    try:
        raw = LazyFif(path, tags)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # a damaged file, of which MNE tells, or an MNE that has changed inside
    return raw if raw.is_whole else None


def _is_plain(tags: list[Tag], size: int) -> bool:
    """Whether nothing is missing, skipped or in another file, and all samples stand together."""
    kinds = [tag.kind for tag in tags]
    begin = [(tag.kind, tag.alike) for tag in tags[:2]]
    if begin != [(FILE_ID, 1), (DIRECTORY_POINTER, 1)] or SAMPLES not in kinds or size > MOST_BYTES:
        return False
    first, count = kinds.index(SAMPLES), kinds.count(SAMPLES)
    together = {(tag.kind, tag.type) for tag in tags[first : first + count]}
    is_all = tags[-1].next < 0 and all(tag.size >= 0 and tag.end <= size for tag in tags)
    return is_all and len(together) == 1 and not {SKIP, REFERENCE_ROLE} & set(kinds)


def _without_samples(path: Path, tags: list[Tag]) -> bytes:
    """All other tags of a file, then a directory of them, in which its samples are one buffer."""
    samples = [tag for tag in tags if tag.kind == SAMPLES]
    n_bytes = sum(tag.alike * tag.size for tag in samples)
    header, entries = bytearray(), bytearray()
    with path.open("rb") as file:
        for tag in tags:
            if tag is samples[0]:
                entries += HEADER.pack(SAMPLES, tag.type, n_bytes, tag.pos)
            elif tag.kind != SAMPLES:
                for one in tag.each():
                    at = len(header) + one.pos - tag.pos
                    entries += HEADER.pack(one.kind, one.type, one.size, at)
                file.seek(tag.pos)
                header += file.read(tag.end - tag.pos)
    pointer = HEADER.pack(DIRECTORY_POINTER, INT, 4, IN_SEQUENCE) + len(header).to_bytes(4, "big")
    header[tags[0].end : tags[1].end] = pointer
    directory = HEADER.pack(DIRECTORY, DIRECTORY_ENTRIES, len(entries), -1)
    return bytes(header + directory + entries)
