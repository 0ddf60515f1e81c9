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


class Tag(NamedTuple):
    """What stands at pos: a header, then size bytes. Called as MNE calls it, which reads them too."""

    kind: int
    type: int
    size: int
    next: int
    pos: int

    @property
    def end(self) -> int:
        return self.pos + HEADER.size + self.size


def walk_tags(path: Path) -> list[Tag]:
    """Every tag of a file, in order; none where the file has a directory, which MNE reads instead."""
    tags: list[Tag] = []
    with path.open("rb") as file:
        number, size = file.fileno(), os.fstat(file.fileno()).st_size
        directory = int.from_bytes(os.pread(number, 4, DIRECTORY_PLACE), "big", signed=True)
        if 0 < directory <= size - HEADER.size:
            return tags
        place, last = 0, b""
        while len(head := os.pread(number, HEADER.size, place)) == HEADER.size:
            if head != last:  # an hour has thousands, and nearly all of them are alike
                kind, form, length, leads_to = HEADER.unpack(head)
                last = head
            tags.append(Tag(kind, form, length, leads_to, place))
            following = leads_to if leads_to != IN_SEQUENCE else place + HEADER.size + length
            if following < 0:
                break
            if following <= place:
                raise SourceError(
                    f"{path} is damaged: its tag at byte {place} leads back to {following}"
                )
            place = following
    return tags
