"""BrainVision, CNT and EEGLAB files: what MNE does not check, and opening them.

MNE plays a BrainVision recording without its markers if these are missing or cut off, and one whose data are
cut off as far as they go; and it reads as many events of a CNT as are left. Such files are refused here.
"""

import re
import struct
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mne

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.guard import is_version_73, probe_matlab, reading
from replay.readers.mne.any_format import ANT, read_with
from replay.readers.mne.content import content_of_file
from replay.readers.mne.raw_file import RawFile


def read_brainvision(path: Path, options: SourceOptions) -> Content:
    return _read(path, "BrainVision", options, _open_brainvision, check_parts)


SECTIONS = (
    "Common Infos",
    "Binary Infos",
    "ASCII Infos",
    "Channel Infos",
    "Coordinates",
    "Comment",
)
"""Headings of a BrainVision header, as MNE knows them."""
_HEADING = re.compile(rb"^\[(\w+(?: \w+)?)\]", re.MULTILINE)
_PART = re.compile(rb"^\s*(DataFile|MarkerFile)\s*=\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE)


def _open_brainvision(path: str, **arguments: Any) -> Any:
    """MNE's reader; a header whose headings or file names have other capitals is given to it as a copy."""
    header, known = Path(path), {name.lower().encode(): name.encode() for name in SECTIONS}
    text = header.read_bytes()
    usual = _HEADING.sub(lambda h: b"[%s]" % known.get(h[1].lower(), h[1]), text)

    def absolute(found: re.Match[bytes]) -> bytes:
        part = _part(header, found[1].decode(), found[2].decode("utf-8", "replace"))
        return found[1] + b"=" + str(part.absolute()).encode()

    stated = [name.decode("utf-8", "replace") for _, name in _PART.findall(text)]
    if usual == text and all((header.parent / name).is_file() for name in stated):
        return mne.io.read_raw_brainvision(path, **arguments)
    with tempfile.TemporaryDirectory(prefix="bci-header-") as folder:
        copy = Path(folder) / header.name
        copy.write_bytes(_PART.sub(absolute, usual))
        return mne.io.read_raw_brainvision(str(copy), **arguments)


def read_cnt(path: Path, options: SourceOptions) -> Content:
    """A `.cnt` of NeuroScan, or of ANT, which begins as a RIFF does."""
    with path.open("rb") as file:
        if file.read(4) in (b"RIFF", b"RF64"):
            return read_with(ANT, path, options)
    return _read(path, "CNT", options, mne.io.read_raw_cnt, check_events, microvolts=True)


def read_eeglab(path: Path, options: SourceOptions) -> Content:
    """A .set is a MATLAB file."""
    return _read(path, "EEGLAB", options, mne.io.read_raw_eeglab, _check_set, microvolts=True)


def _check_set(path: Path) -> tuple[str, ...]:
    if is_version_73(path) and find_spec("pymatreader") is None:
        raise SourceError(
            f"{path} is an EEGLAB file of MATLAB 7.3, which needs `pip install bci-stream[matlab73]`; or "
            "save it again in EEGLAB with the option for older versions"
        )
    probe_matlab(path)
    return ()


def _read(
    path: Path,
    form: str,
    options: SourceOptions,
    opener: Callable[..., Any],
    check: Callable[[Path], tuple[str, ...]],
    microvolts: bool = False,
) -> Content:
    """microvolts: see `RawFile.codes_in_microvolts`."""
    checked = check(path)
    with reading(str(path), form) as notes, mne.use_log_level("warning"):
        raw = opener(str(path), preload=False, **options.reader)
    file = RawFile.of(raw, path.name, codes_in_microvolts=microvolts)
    return content_of_file(path, file, form, options, [*checked, *notes])


_LINES = re.MULTILINE | re.IGNORECASE
_NAMED = re.compile(r"^\s*(DataFile|MarkerFile)\s*=\s*(.+?)\s*$", _LINES)
_CHANNELS = re.compile(r"^\s*NumberOfChannels\s*=\s*(\d+)", _LINES)
_POINTS = re.compile(r"^\s*DataPoints\s*=\s*(\d+)", _LINES)
_FORMAT = re.compile(r"^\s*BinaryFormat\s*=\s*(\w+)", _LINES)
_MARKER = re.compile(r"Mk\d+=[^,]*,[^,]*,(\d+),-?\d+,-?\d+(?:,\d*)?\s*", re.IGNORECASE)
_SAMPLE_BYTES = {"INT_16": 2, "UINT_16": 2, "IEEE_FLOAT_32": 4}


def check_parts(header: Path) -> tuple[str, ...]:
    """Refuse a BrainVision recording of which a part is missing or cut off; notes about its markers."""
    text = _text(header)
    parts = {key.lower(): _part(header, key, name) for key, name in _NAMED.findall(text)}
    n_samples = _n_samples(text, parts.get("datafile"), extra=header.suffix.lower() == ".ahdr")
    return _check_markers(parts["markerfile"], n_samples) if "markerfile" in parts else ()


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _part(header: Path, key: str, name: str) -> Path:
    # `$b` is replaced by the name of the header.
    part = header.with_name(name.replace("$b", header.stem).replace("\\", "/").split("/")[-1])
    if not part.is_file():
        # Windows does not tell capitals from small letters.
        alike = [path for path in header.parent.iterdir() if path.name.lower() == part.name.lower()]
        if len(alike) == 1:
            return alike[0]
        raise SourceError(f"{header} names {part.name} as its {key}, which is not beside it")
    return part


def _n_samples(text: str, data: Path | None, extra: bool) -> int | None:
    """Number of samples in the data file; None if the header does not state the sample format.

    extra: there is a channel more than the header states, as in the files of a V-Amp.
    """
    channels, form = _CHANNELS.search(text), _FORMAT.search(text)
    if data is None or not channels or not form or form[1].upper() not in _SAMPLE_BYTES:
        return None
    frame = (int(channels[1]) + extra) * _SAMPLE_BYTES[form[1].upper()]
    size = data.stat().st_size
    n_samples, rest = divmod(size, frame) if frame else (0, size)
    points = _POINTS.search(text)
    if rest or (points and int(points[1]) > n_samples):
        raise SourceError(
            f"{data} is cut off: {size} bytes are not {points[1] if points else 'a whole number of'} "
            f"samples of {frame} bytes"
        )
    return n_samples


def _check_markers(markers: Path, n_samples: int | None) -> tuple[str, ...]:
    text = _text(markers)
    lines = [line for line in text.splitlines() if line[:2].lower() == "mk"]
    whole = [_MARKER.fullmatch(line) for line in lines]
    last = text.splitlines()[-1] if text.strip() else ""
    ended = text.endswith(("\n", "\r")) or bool(_MARKER.fullmatch(last))
    if "[marker infos]" not in text.lower() or None in whole or not ended:
        raise SourceError(f"{markers} is cut off or damaged: not every marker in it is complete")
    positions = [int(found[1]) for found in whole if found]
    beyond = [position for position in positions if n_samples and position > n_samples]
    if not beyond:
        return ()
    return (
        f"{len(beyond)} of {len(positions)} markers lie past the end of the data (sample {n_samples}) and "
        "are left out",
    )


TABLE_POINTER = 886
_TABLE = struct.Struct("<Bll")
_EVENT_BYTES = {1: 8, 2: 19, 3: 19}
_LARGEST = 2_000_000_000
"""In a larger file the pointer to the table has overflowed, and MNE computes its position."""


def check_events(path: Path) -> tuple[str, ...]:
    """Refuse a CNT whose event table is shorter than the size stated in it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(TABLE_POINTER)
        place = int.from_bytes(file.read(4), "little", signed=True)
        file.seek(max(place, 0))
        head = file.read(_TABLE.size)
    if not 0 < place <= size < _LARGEST or len(head) < _TABLE.size:
        return ()  # MNE reports what is wrong
    kind, n_bytes, _ = _TABLE.unpack(head)
    present = size - place - _TABLE.size
    if n_bytes > present and kind in _EVENT_BYTES:
        of_each = _EVENT_BYTES[kind]
        raise SourceError(
            f"{path} is cut off: it states that it has {n_bytes // of_each} events, and "
            f"{present // of_each} are there"
        )
    return ()
