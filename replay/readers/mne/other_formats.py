"""FIF, BrainVision, CNT and EEGLAB files: what MNE does not check, and opening them.

MNE plays a BrainVision recording without its markers if these are missing or cut off, and one whose data are
cut off as far as they go; it reads as many events of a CNT as are left; and it follows the tags of a FIF in
circles. Such files are refused here.
"""

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mne

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.guard import probe_matlab, reading
from replay.readers.mne.content import content_of_file
from replay.readers.mne.raw_file import RawFile


def read_fif(path: Path, options: SourceOptions) -> Content:
    return _read(path, "FIF", options, mne.io.read_raw_fif, check_tags)


def read_brainvision(path: Path, options: SourceOptions) -> Content:
    return _read(path, "BrainVision", options, mne.io.read_raw_brainvision, check_parts)


def read_cnt(path: Path, options: SourceOptions) -> Content:
    return _read(path, "CNT", options, mne.io.read_raw_cnt, check_events, microvolts=True)


def read_eeglab(path: Path, options: SourceOptions) -> Content:
    """A .set is a MATLAB file."""
    return _read(path, "EEGLAB", options, mne.io.read_raw_eeglab, probe_matlab, microvolts=True)


def _read(
    path: Path,
    form: str,
    options: SourceOptions,
    opener: Callable[..., Any],
    check: Callable[[Path], None],
    microvolts: bool = False,
) -> Content:
    """microvolts: see `RawFile.codes_in_microvolts`."""
    check(path)
    with reading(str(path), form) as notes, mne.use_log_level("warning"):
        raw = opener(str(path), preload=False)
    file = RawFile.of(raw, path.name, codes_in_microvolts=microvolts)
    return content_of_file(path, file, form, options, notes)


_TAG = struct.Struct(">iIii")  # kind, type, size, position of the next tag (0: behind this one)
_DIRECTORY_AT = 52


def check_tags(path: Path) -> None:
    """Refuse a FIF in which a tag leads back to an earlier one; a directory is not followed."""
    with path.open("rb") as file:
        number, size = file.fileno(), os.fstat(file.fileno()).st_size
        directory = int.from_bytes(os.pread(number, 4, _DIRECTORY_AT), "big", signed=True)
        if 0 < directory <= size - _TAG.size:
            return
        place = 0
        while len(head := os.pread(number, _TAG.size, place)) == _TAG.size:
            _, _, length, following = _TAG.unpack(head)
            following = following or place + _TAG.size + length
            if following < 0:
                return
            if following <= place:
                raise SourceError(
                    f"{path} is damaged: its tag at byte {place} leads back to {following}"
                )
            place = following


_NAMED = re.compile(r"^\s*(DataFile|MarkerFile)\s*=\s*(.+?)\s*$", re.MULTILINE)
_CHANNELS = re.compile(r"^\s*NumberOfChannels\s*=\s*(\d+)", re.MULTILINE)
_POINTS = re.compile(r"^\s*DataPoints\s*=\s*(\d+)", re.MULTILINE)
_FORMAT = re.compile(r"^\s*BinaryFormat\s*=\s*(\w+)", re.MULTILINE)
_MARKER = re.compile(r"Mk\d+=[^,]*,[^,]*,(\d+),-?\d+,-?\d+(?:,\d*)?\s*")
_SAMPLE_BYTES = {"INT_16": 2, "UINT_16": 2, "IEEE_FLOAT_32": 4}


def check_parts(header: Path) -> None:
    """Refuse a BrainVision recording of which a part is missing or cut off."""
    text = _text(header)
    parts = {key: _part(header, key, name) for key, name in _NAMED.findall(text)}
    n_samples = _n_samples(text, parts.get("DataFile"))
    if "MarkerFile" in parts:
        _check_markers(parts["MarkerFile"], n_samples)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _part(header: Path, key: str, name: str) -> Path:
    # `$b` is replaced by the name of the header.
    part = header.with_name(name.replace("$b", header.stem).replace("\\", "/").split("/")[-1])
    if not part.is_file():
        raise SourceError(f"{header} names {part.name} as its {key}, which is not beside it")
    return part


def _n_samples(text: str, data: Path | None) -> int | None:
    """Number of samples in the data file; None if the header does not state the sample format."""
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
    text = _text(markers)
    lines = [line for line in text.splitlines() if line.startswith("Mk")]
    whole = [_MARKER.fullmatch(line) for line in lines]
    last = text.splitlines()[-1] if text.strip() else ""
    ended = text.endswith(("\n", "\r")) or bool(_MARKER.fullmatch(last))
    if "[Marker Infos]" not in text or None in whole or not ended:
        raise SourceError(f"{markers} is cut off or damaged: not every marker in it is complete")
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
"""In a larger file the pointer to the table has overflowed, and MNE computes its position."""


def check_events(path: Path) -> None:
    """Refuse a CNT whose event table is shorter than the size stated in it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(TABLE_POINTER)
        place = int.from_bytes(file.read(4), "little", signed=True)
        file.seek(max(place, 0))
        head = file.read(_TABLE.size)
    if not 0 < place <= size < _LARGEST or len(head) < _TABLE.size:
        return  # MNE reports what is wrong
    kind, n_bytes, _ = _TABLE.unpack(head)
    present = size - place - _TABLE.size
    if n_bytes > present and kind in _EVENT_BYTES:
        of_each = _EVENT_BYTES[kind]
        raise SourceError(
            f"{path} is cut off: it states that it has {n_bytes // of_each} events, and "
            f"{present // of_each} are there"
        )
