"""Every other format that MNE opens: one function of MNE for each, with its parameters passed on.

The signal, events and leads of such a file are what MNE returns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mne

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.guard import reading, suffix_of
from replay.readers.mne.content import content_of_file
from replay.readers.mne.raw_file import RawFile


@dataclass(frozen=True)
class MneReader:
    """function: name in `mne.io`. needs: package that MNE needs for it. defaults: of its parameters.

    preload: what the function's parameter of that name gets; None: it has none, and reads all at once.
    """

    form: str
    function: str
    needs: str = ""
    defaults: tuple[tuple[str, Any], ...] = ()
    preload: bool | None = False


_CURRY = MneReader("Curry", "read_raw_curry", "curryreader")
_KIT = MneReader("KIT", "read_raw_kit")
_NSX = MneReader("NSx", "read_raw_nsx")
ANT = MneReader("ANT eego", "read_raw_ant", "antio")
ARTEMIS = MneReader("Artemis123", "read_raw_artemis123")
OPM = MneReader("OPM (UCL FIL)", "read_raw_fil")

READERS: dict[str, MneReader] = {
    ".cdt": _CURRY,
    ".dap": _CURRY,
    ".rs3": _CURRY,
    ".dat": _CURRY,
    ".eeg": MneReader("Nihon Kohden", "read_raw_nihon"),
    ".lay": MneReader("Persyst", "read_raw_persyst"),
    ".nedf": MneReader("NEDF", "read_raw_nedf", "defusedxml"),
    ".nxe": MneReader("eXimia", "read_raw_eximia"),
    ".mff": MneReader("EGI MFF", "read_raw_egi", "mffpy"),
    ".data": MneReader("Nicolet", "read_raw_nicolet", defaults=(("ch_type", "eeg"),)),
    ".snirf": MneReader("SNIRF", "read_raw_snirf", "h5py"),
    ".mefd": MneReader("MEF", "read_raw_mef", "pymef"),
    ".ds": MneReader("CTF", "read_raw_ctf"),
    ".sqd": _KIT,
    ".con": _KIT,
    **{f".ns{number}": _NSX for number in range(1, 7)},
    ".fif.gz": MneReader("FIF, compressed", "read_raw_fif", preload=True),
    ".hdr": MneReader("NIRx", "read_raw_nirx"),
    ".txt": MneReader("BOXY", "read_raw_boxy"),
    ".asc": MneReader("EyeLink", "read_raw_eyelink", "pandas", preload=None),
}
"""By suffix. A `.cnt` of ANT is recognised by how it begins, and so is a `.dat` of BCI2000; a `.bin` by the
files beside it."""


def read_any(path: Path, options: SourceOptions) -> Content:
    """Open a file with the reader for its suffix; no sample is read, if MNE reads lazily."""
    return read_with(READERS[suffix_of(path)], path, options)


def read_mff(path: Path, options: SourceOptions) -> Content:
    """A folder of EGI's. mffpy prints a note about each file that it misses, also while samples are read."""
    if find_spec("mffpy") is not None:
        vars(import_module("mffpy.reader"))["print"] = lambda *_: None
    return read_any(path, options)


def read_boxy(path: Path, options: SourceOptions) -> Content:
    """A text file, if it is one of BOXY's."""
    with path.open("rb") as file:
        if b"BOXY.EXE" not in file.read(4096):
            raise SourceError(
                f"{path} is a text, and not one of BOXY (ISS Imagent), which names BOXY.EXE in its first "
                "lines; save numbers as .npy or .mat to play them"
            )
    return read_any(path, options)


def read_bin(path: Path, options: SourceOptions) -> Content:
    """A `.bin` of Artemis123 or of UCL's OPM, by the files beside it."""
    if path.stem.endswith("_meg") and path.with_suffix(".json").is_file():
        return read_with(OPM, path, options)
    if path.with_suffix(".txt").is_file():
        return read_with(ARTEMIS, path, options)
    raise SourceError(
        f"{path} is no recording by itself: an OPM recording has X_meg.json and X_channels.tsv beside "
        "X_meg.bin, and one of Artemis123 has X.txt beside X.bin"
    )


def read_with(reader: MneReader, path: Path, options: SourceOptions) -> Content:
    """Open a file with one of MNE's functions. Raises SourceError."""
    opener: Callable[..., Any] | None = getattr(mne.io, reader.function, None)
    if opener is None:
        raise SourceError(
            f"{path} is of format {reader.form}, which MNE {mne.__version__} does not read: install a "
            "newer MNE"
        )
    if reader.needs and find_spec(reader.needs) is None:
        raise SourceError(
            f"{path} is of format {reader.form}, which needs another package: `pip install {reader.needs}`"
        )
    with reading(str(path), reader.form) as notes, mne.use_log_level("warning"):
        preload = {} if reader.preload is None else {"preload": reader.preload}
        raw = opener(str(path), **preload, **{**dict(reader.defaults), **options.reader})
    return content_of_file(path, RawFile.of(raw, path.name), reader.form, options, notes)
