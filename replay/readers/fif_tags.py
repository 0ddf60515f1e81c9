"""The tags of a FIF file stand one after the other; a damaged one that leads back makes a circle.

MNE follows such a circle for ever (seen with MNE 1.13 on one flipped bit), so it is looked for first.
"""

import os
import struct
from pathlib import Path
from typing import NamedTuple

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
