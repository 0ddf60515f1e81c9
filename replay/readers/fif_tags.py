"""The tags of a FIF file stand one after the other; a damaged one that leads back makes a circle.

MNE follows such a circle for ever (seen with MNE 1.13 on one flipped bit), so it is looked for first.
"""

import os
import struct
from pathlib import Path

from bci_stream.errors import SourceError

HEADER = struct.Struct(">iIii")  # kind, type, size, where the next one is
IN_SEQUENCE = 0
DIRECTORY_PLACE = 52


def check_tags(path: Path) -> None:
    """Refuse a file whose tags lead back; one that has a directory of them is not walked through."""
    with path.open("rb") as file:
        number, size = file.fileno(), os.fstat(file.fileno()).st_size
        directory = int.from_bytes(os.pread(number, 4, DIRECTORY_PLACE), "big", signed=True)
        if 0 < directory <= size - HEADER.size:
            return
        place = 0
        while len(head := os.pread(number, HEADER.size, place)) == HEADER.size:
            _, _, length, following = HEADER.unpack(head)
            if following == IN_SEQUENCE:
                following = place + HEADER.size + length
            if following < 0:
                return
            if following <= place:
                raise SourceError(
                    f"{path} is damaged: its tag at byte {place} leads back to {following}"
                )
            place = following
