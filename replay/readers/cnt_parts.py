"""The event table of a Neuroscan CNT file, which MNE reads as far as it goes."""

import struct
from pathlib import Path

from bci_stream.errors import SourceError

TABLE_POINTER = 886
_TABLE = struct.Struct("<Bll")
_EVENT_BYTES = {1: 8, 2: 19, 3: 19}
_LARGEST = 2_000_000_000
"""Beyond this the pointer has overflown, and MNE reckons where the table stands."""


def check_events(path: Path) -> None:
    """Refuse a recording whose events are cut off: their table says how long it is."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(TABLE_POINTER)
        place = int.from_bytes(file.read(4), "little", signed=True)
        file.seek(max(place, 0))
        head = file.read(_TABLE.size)
    if not 0 < place <= size < _LARGEST or len(head) < _TABLE.size:
        return  # MNE tells what is wrong with it
    kind, n_bytes, _ = _TABLE.unpack(head)
    present = size - place - _TABLE.size
    if n_bytes > present and kind in _EVENT_BYTES:
        of_each = _EVENT_BYTES[kind]
        raise SourceError(
            f"{path} is cut off: it says that it has {n_bytes // of_each} events, and "
            f"{present // of_each} are there"
        )
