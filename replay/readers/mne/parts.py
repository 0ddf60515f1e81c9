"""The parts of a BrainVision recording: its header names a data file and, mostly, a marker file.

MNE plays a recording whose markers are missing or cut off without them, and one whose data are cut
off as far as they go. Both are told here instead.
"""

import re
import struct
from pathlib import Path

from bci_stream.errors import SourceError

_NAMED = re.compile(r"^\s*(DataFile|MarkerFile)\s*=\s*(.+?)\s*$", re.MULTILINE)
_CHANNELS = re.compile(r"^\s*NumberOfChannels\s*=\s*(\d+)", re.MULTILINE)
_POINTS = re.compile(r"^\s*DataPoints\s*=\s*(\d+)", re.MULTILINE)
_FORMAT = re.compile(r"^\s*BinaryFormat\s*=\s*(\w+)", re.MULTILINE)
_MARKER = re.compile(r"Mk\d+=[^,]*,[^,]*,(\d+),-?\d+,-?\d+(?:,\d*)?\s*")
_SAMPLE_BYTES = {"INT_16": 2, "UINT_16": 2, "IEEE_FLOAT_32": 4}


def check_parts(header: Path) -> None:
    """Refuse a recording of which a part is missing or cut off."""
    text = _read(header)
    parts = {key: _part(header, key, name) for key, name in _NAMED.findall(text)}
    n_samples = _n_samples(text, parts.get("DataFile"))
    if "MarkerFile" in parts:
        _check_markers(parts["MarkerFile"], n_samples)


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _part(header: Path, key: str, name: str) -> Path:
    # `$b` stands for the header's own name, so that files can be renamed together.
    part = header.with_name(name.replace("$b", header.stem).replace("\\", "/").split("/")[-1])
    if not part.is_file():
        raise SourceError(f"{header} names {part.name} as its {key}, which is not beside it")
    return part


def _n_samples(text: str, data: Path | None) -> int | None:
    """How many samples the data hold; None where the header does not let us tell."""
    channels, form = _CHANNELS.search(text), _FORMAT.search(text)
    if data is None or not channels or not form or form[1] not in _SAMPLE_BYTES:
        return None
    frame = int(channels[1]) * _SAMPLE_BYTES[form[1]]
    size = data.stat().st_size
    n_samples, rest = divmod(size, frame) if frame else (0, size)
    points = _POINTS.search(text)
    if rest or (points and int(points[1]) > n_samples):
        raise SourceError(
            f"{data} is cut off: {size} bytes are not {points[1] if points else 'a whole number of'} "
            f"samples of {frame} bytes"
        )
    return n_samples


def _check_markers(markers: Path, n_samples: int | None) -> None:
    text = _read(markers)
    lines = [line for line in text.splitlines() if line.startswith("Mk")]
    whole = [_MARKER.fullmatch(line) for line in lines]
    last = text.splitlines()[-1] if text.strip() else ""
    ended = text.endswith(("\n", "\r")) or bool(_MARKER.fullmatch(last))
    if "[Marker Infos]" not in text or None in whole or not ended:
        raise SourceError(f"{markers} is cut off or damaged: not every marker in it is whole")
    positions = [int(found[1]) for found in whole if found]
    beyond = [position for position in positions if n_samples and position > n_samples]
    if beyond:
        raise SourceError(
            f"{markers} marks sample {beyond[0]}, but the data end at {n_samples}: they are cut off"
        )


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
