"""The table of file formats. Each reader turns one file into `Content`, lazily if the format allows it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.bids import with_places
from replay.readers.guard import check_file, suffix_of

Reader = Callable[[Path, SourceOptions], Content]

FILE_PARAMETERS = ("rate", "leads", "unit", "variable", "batch", "stream")
"""Parameters that only some formats take: for facts that the files of other formats state themselves."""


@dataclass(frozen=True)
class FileFormat:
    """A file format.

    reader: `module:function`, imported when a file of this format is opened, because readers import heavy
    libraries. begins: what its files begin with; empty if that varies. parameters: which of FILE_PARAMETERS
    and of `options.READER_PARAMETERS` it takes. hint: added to the error about a file that begins
    differently. is_folder: a recording is a folder of that suffix. named_only: in a folder, files of this
    suffix are not looked for, because other files have it too.
    """

    name: str
    reader: str
    begins: tuple[bytes, ...] = ()
    parameters: tuple[str, ...] = ()
    hint: str = ""
    is_folder: bool = False
    named_only: bool = False

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
_NUMPY = "replay.readers.arrays.numpy_file:read_numpy"
_PICKLE = "replay.readers.arrays.pickles:read_pickle"
_MAT = "replay.readers.arrays.matlab:read_mat"
_XDF = "replay.readers.xdf:read_xdf"
_ANY = "replay.readers.mne.any_format:read_any"
_DAT = "replay.readers.bci2000:read_dat"
_KINDS = ("eog", "misc")
_CNT = ("eog", "misc", "ecg", "emg", "data_format", "date_format", "header", "encoding")
_VHDR = FileFormat(
    "BrainVision",
    f"{_MNE}:read_brainvision",
    (b"Brain", b"\xef\xbb\xbfBrain", b"BIDS"),
    (*_KINDS, "scale"),
)
_NSX = FileFormat("NSx", _ANY, (b"NEURALSG", b"NEURALCD", b"BRSMPGRP"), _KINDS)

FORMATS: dict[str, FileFormat] = {
    ".edf": FileFormat("EDF", _EDF, (b"0 ",)),
    ".bdf": FileFormat("BDF", _EDF, (b"\xffBIOSEMI",)),
    ".gdf": FileFormat("GDF", _GDF, (b"GDF ",)),
    ".fif": FileFormat("FIF", "replay.readers.mne.fif:read_fif", (b"\x00\x00\x00\x64",)),
    ".vhdr": _VHDR,
    ".ahdr": _VHDR,
    ".cnt": FileFormat("CNT", f"{_MNE}:read_cnt", (b"Version 3", b"RIFF", b"RF64"), _CNT),
    ".set": FileFormat(
        "EEGLAB", f"{_MNE}:read_eeglab", (), ("eog", "montage_units", "uint16_codec")
    ),
    ".xdf": FileFormat("XDF", _XDF, (b"XDF:", b"\x1f\x8b"), ("stream",)),
    ".xdfz": FileFormat("XDF", _XDF, (b"\x1f\x8b",), ("stream",)),
    ".mat": FileFormat("MATLAB", _MAT, _MATLAB, _ARRAYS),
    ".npy": FileFormat("npy", _NUMPY, (b"\x93NUMPY",), _ARRAYS),
    ".npz": FileFormat("npz", _NUMPY, (b"PK",), _ARRAYS),
    ".pkl": FileFormat("pickle", _PICKLE, (b"\x80",), _ARRAYS, _OLD_PICKLE),
    ".pickle": FileFormat("pickle", _PICKLE, (b"\x80",), _ARRAYS, _OLD_PICKLE),
    ".cdt": FileFormat("Curry", _ANY),
    ".dap": FileFormat("Curry", _ANY),
    ".rs3": FileFormat("Curry", _ANY),
    ".dat": FileFormat("BCI2000 or Curry", _DAT),
    ".eeg": FileFormat("Nihon Kohden", _ANY, (), ("encoding",)),
    ".lay": FileFormat("Persyst", _ANY),
    ".nedf": FileFormat("NEDF", _ANY, (b"<",)),
    ".nxe": FileFormat("eXimia", _ANY),
    **{f".ns{number}": _NSX for number in range(1, 7)},
    ".mff": FileFormat(
        "EGI MFF",
        "replay.readers.mne.any_format:read_mff",
        (),
        (*_KINDS, "exclude", "channel_naming"),
        is_folder=True,
    ),
    ".data": FileFormat("Nicolet", _ANY, (), (*_KINDS, "ecg", "emg", "ch_type")),
    ".snirf": FileFormat("SNIRF", _ANY, (b"\x89HDF",), ("optode_frame", "sfreq")),
    ".mefd": FileFormat("MEF", _ANY, is_folder=True),
    ".ds": FileFormat("CTF", _ANY, is_folder=True),
    ".sqd": FileFormat("KIT", _ANY),
    ".con": FileFormat("KIT", _ANY),
    ".fif.gz": FileFormat("FIF, compressed", _ANY, (b"\x1f\x8b",)),
    ".hdr": FileFormat("NIRx", _ANY, (), ("encoding",), named_only=True),
    ".txt": FileFormat("BOXY", "replay.readers.mne.any_format:read_boxy", named_only=True),
    ".asc": FileFormat("EyeLink", _ANY, (b"**",), named_only=True),
    ".bin": FileFormat(
        "OPM or Artemis123", "replay.readers.mne.any_format:read_bin", named_only=True
    ),
    ".nwb": FileFormat("NWB", "replay.readers.nwb:read_nwb", (b"\x89HDF",), ("variable",)),
}
"""By suffix. docs/howto/add-a-format.md shows how to add one."""


PARTS_OF = {
    **dict.fromkeys((".dpa", ".cef", ".ceo"), "the Curry file beside it (.cdt)"),
    **dict.fromkeys(
        (".wl1", ".wl2", ".nosatflags_wl1", ".tpl"), "the NIRx header beside it (.hdr)"
    ),
    ".vmrk": "the BrainVision header beside it (.vhdr)",
    ".fdt": "the EEGLAB file beside it (.set)",
    ".nev": "the signal beside it (.ns1 to .ns6)",
}
"""Files that are parts of a recording: what to open instead."""


def format_of(path: Path) -> FileFormat:
    """The format for a file's suffix."""
    suffix = suffix_of(path)
    if suffix in PARTS_OF:
        raise SourceError(f"{path} is a part of a recording: open {PARTS_OF[suffix]}")
    if suffix not in FORMATS:
        raise SourceError(
            f"{path} is of no format that can be read; readable are {', '.join(FORMATS)}, a "
            "Neuracle folder and a BIDS folder"
        )
    return FORMATS[suffix]


def check_recording(path: Path) -> None:
    """Refuse a file by its first bytes, before any file of the source is read."""
    found = format_of(path)
    if not found.is_folder:
        check_file(path, found.name, found.begins, found.hint)


def is_recording_folder(path: Path) -> bool:
    """Whether a folder is one recording, of a format whose recordings are folders."""
    found = FORMATS.get(suffix_of(path))
    return found is not None and found.is_folder and path.is_dir()


def read_recording(path: Path, options: SourceOptions) -> Content:
    """The content of a file that has passed `check_recording`."""
    found = format_of(path)
    given = [name for name in FILE_PARAMETERS if getattr(options, name) is not None]
    useless = [name for name in (*given, *options.reader) if name not in found.parameters]
    if useless:
        used = sorted({form.name for form in FORMATS.values() if useless[0] in form.parameters})
        raise SourceError(
            f"{path.name}: ?{useless[0]}= is for {', '.join(used)}, and not for {found.name}; "
            "?resample=, ?select= and ?rename= are for all files"
        )
    return with_places(found.load_reader()(path, options), path)
