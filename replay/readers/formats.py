"""A reader turns one file of some format into `Content`: lazily where the format allows it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.bids import with_places
from replay.readers.guard import check_file

Reader = Callable[[Path, SourceOptions], Content]


UNSAID = ("rate", "leads", "unit", "variable", "batch", "stream")
"""Parameters for what some formats leave unsaid, or hold more than once."""


@dataclass(frozen=True)
class FileFormat:
    """A file format: its name, how its files begin (where they all do alike), its reader.

    unsaid: which of those parameters it has a use for. hint: for files that begin otherwise.
    """

    name: str
    begins: tuple[bytes, ...]
    read: Reader
    unsaid: tuple[str, ...] = ()
    hint: str = ""


# Readers import heavy libraries, each only when a file of its kind is opened.


def _mne(path: Path, options: SourceOptions) -> Content:
    from replay.readers.mne.mne_file import read_mne

    return read_mne(path, options)


def _numpy(path: Path, options: SourceOptions) -> Content:
    from replay.readers.numpy_file import read_numpy

    return read_numpy(path, options)


def _pickle(path: Path, options: SourceOptions) -> Content:
    from replay.readers.pickles import read_pickle

    return read_pickle(path, options)


def _mat(path: Path, options: SourceOptions) -> Content:
    from replay.readers.matlab import read_mat

    return read_mat(path, options)


def _xdf(path: Path, options: SourceOptions) -> Content:
    from replay.readers.xdf import read_xdf

    return read_xdf(path, options)


# MATLAB 4 has no name at its beginning, but a number that says how a matrix lies there.
_TYPES_4 = [10 * precision + kind for precision in range(6) for kind in range(3)]
_MATLAB_4 = (
    *(number.to_bytes(4, "little") for number in _TYPES_4),
    *((1000 + number).to_bytes(4, "big") for number in _TYPES_4),
)
_OLD_PICKLE = (
    "pickles of protocol 0 and 1 are too old to be told apart from other files: load it in Python and "
    "save it anew with pickle.dump(data, file, protocol=4)"
)
_ARRAYS = ("rate", "leads", "unit", "variable", "batch")

FORMATS: dict[str, FileFormat] = {
    ".edf": FileFormat("EDF", (b"0 ",), _mne),
    ".bdf": FileFormat("BDF", (b"\xffBIOSEMI",), _mne),
    ".gdf": FileFormat("GDF", (b"GDF ",), _mne),
    ".fif": FileFormat("FIF", (b"\x00\x00\x00\x64",), _mne),
    ".vhdr": FileFormat("BrainVision", (b"Brain", b"\xef\xbb\xbfBrain"), _mne),
    ".cnt": FileFormat("CNT", (b"Version 3",), _mne),
    ".set": FileFormat("EEGLAB", (), _mne),
    ".xdf": FileFormat("XDF", (b"XDF:", b"\x1f\x8b"), _xdf, ("stream",)),
    ".xdfz": FileFormat("XDF", (b"\x1f\x8b",), _xdf, ("stream",)),
    ".mat": FileFormat("MATLAB", (b"MATLAB", b"\x89HDF", *_MATLAB_4), _mat, _ARRAYS),
    ".npy": FileFormat("npy", (b"\x93NUMPY",), _numpy, _ARRAYS),
    ".npz": FileFormat("npz", (b"PK",), _numpy, _ARRAYS),
    ".pkl": FileFormat("pickle", (b"\x80",), _pickle, _ARRAYS, _OLD_PICKLE),
    ".pickle": FileFormat("pickle", (b"\x80",), _pickle, _ARRAYS, _OLD_PICKLE),
}


def format_of(path: Path) -> FileFormat:
    """The format that a file's name says it is of."""
    if path.suffix.lower() not in FORMATS:
        raise SourceError(
            f"{path} is of no format that can be read; readable are {', '.join(FORMATS)}, a "
            "Neuracle folder and a BIDS folder"
        )
    return FORMATS[path.suffix.lower()]


def check_recording(path: Path) -> None:
    """Refuse early, without reading it all, what can't be a recording."""
    found = format_of(path)
    check_file(path, found.name, found.begins, found.hint)


def read_recording(path: Path, options: SourceOptions) -> Content:
    """What a file holds."""
    check_recording(path)
    found = format_of(path)
    useless = [n for n in UNSAID if n not in found.unsaid and getattr(options, n) is not None]
    if useless:
        used = sorted({form.name for form in FORMATS.values() if useless[0] in form.unsaid})
        raise SourceError(
            f"{path.name}: ?{useless[0]}= is for {', '.join(used)}, and not for {found.name}; "
            "?resample=, ?select= and ?rename= are for all files"
        )
    return with_places(found.read(path, options), path)
