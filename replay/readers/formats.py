"""The table of file formats. Each reader turns one file into `Content`, lazily if the format allows it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.bids import with_places
from replay.readers.guard import check_file

Reader = Callable[[Path, SourceOptions], Content]

FILE_PARAMETERS = ("rate", "leads", "unit", "variable", "batch", "stream")
"""Parameters that only some formats take: for facts that the files of other formats state themselves."""


@dataclass(frozen=True)
class FileFormat:
    """A file format.

    reader: `module:function`, imported when a file of this format is opened, because readers import heavy
    libraries. begins: what its files begin with; empty if that varies. parameters: which of FILE_PARAMETERS
    it takes. hint: added to the error about a file that begins differently.
    """

    name: str
    reader: str
    begins: tuple[bytes, ...] = ()
    parameters: tuple[str, ...] = ()
    hint: str = ""

    def load_reader(self) -> Reader:
        module, _, function = self.reader.partition(":")
        reader: Reader = getattr(import_module(module), function)
        return reader


# A MATLAB 4 file begins with a number that describes the layout of its first matrix.
_TYPES_4 = [10 * precision + kind for precision in range(6) for kind in range(3)]
_MATLAB = (
    b"MATLAB",
    b"\x89HDF",
    *(number.to_bytes(4, "little") for number in _TYPES_4),
    *((1000 + number).to_bytes(4, "big") for number in _TYPES_4),
)
_OLD_PICKLE = (
    "pickles of protocol 0 and 1 are too old to be recognised: load it in Python and save it "
    "again with pickle.dump(data, file, protocol=4)"
)
_ARRAYS = ("rate", "leads", "unit", "variable", "batch")
_EDF = "replay.readers.mne.edf:read_edf"
_GDF = "replay.readers.mne.gdf:read_gdf"
_MNE = "replay.readers.mne.other_formats"
_NUMPY = "replay.readers.numpy_file:read_numpy"
_PICKLE = "replay.readers.pickles:read_pickle"
_MAT = "replay.readers.matlab:read_mat"
_XDF = "replay.readers.xdf:read_xdf"

FORMATS: dict[str, FileFormat] = {
    ".edf": FileFormat("EDF", _EDF, (b"0 ",)),
    ".bdf": FileFormat("BDF", _EDF, (b"\xffBIOSEMI",)),
    ".gdf": FileFormat("GDF", _GDF, (b"GDF ",)),
    ".fif": FileFormat("FIF", f"{_MNE}:read_fif", (b"\x00\x00\x00\x64",)),
    ".vhdr": FileFormat(
        "BrainVision", f"{_MNE}:read_brainvision", (b"Brain", b"\xef\xbb\xbfBrain")
    ),
    ".cnt": FileFormat("CNT", f"{_MNE}:read_cnt", (b"Version 3",)),
    ".set": FileFormat("EEGLAB", f"{_MNE}:read_eeglab"),
    ".xdf": FileFormat("XDF", _XDF, (b"XDF:", b"\x1f\x8b"), ("stream",)),
    ".xdfz": FileFormat("XDF", _XDF, (b"\x1f\x8b",), ("stream",)),
    ".mat": FileFormat("MATLAB", _MAT, _MATLAB, _ARRAYS),
    ".npy": FileFormat("npy", _NUMPY, (b"\x93NUMPY",), _ARRAYS),
    ".npz": FileFormat("npz", _NUMPY, (b"PK",), _ARRAYS),
    ".pkl": FileFormat("pickle", _PICKLE, (b"\x80",), _ARRAYS, _OLD_PICKLE),
    ".pickle": FileFormat("pickle", _PICKLE, (b"\x80",), _ARRAYS, _OLD_PICKLE),
}
"""By suffix. docs/howto/add-a-format.md shows how to add one."""


def format_of(path: Path) -> FileFormat:
    """The format for a file's suffix."""
    if path.suffix.lower() not in FORMATS:
        raise SourceError(
            f"{path} is of no format that can be read; readable are {', '.join(FORMATS)}, a "
            "Neuracle folder and a BIDS folder"
        )
    return FORMATS[path.suffix.lower()]


def check_recording(path: Path) -> None:
    """Refuse a file by its first bytes, before any file of the source is read."""
    found = format_of(path)
    check_file(path, found.name, found.begins, found.hint)


def read_recording(path: Path, options: SourceOptions) -> Content:
    """The content of a file that has passed `check_recording`."""
    found = format_of(path)
    useless = [
        name
        for name in FILE_PARAMETERS
        if name not in found.parameters and getattr(options, name) is not None
    ]
    if useless:
        used = sorted({form.name for form in FORMATS.values() if useless[0] in form.parameters})
        raise SourceError(
            f"{path.name}: ?{useless[0]}= is for {', '.join(used)}, and not for {found.name}; "
            "?resample=, ?select= and ?rename= are for all files"
        )
    return with_places(found.load_reader()(path, options), path)
