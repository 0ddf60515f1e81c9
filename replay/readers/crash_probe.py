"""A crash probe tries a parser that may crash on damaged bytes in a process of its own first.

scipy's reader of MATLAB files can end the whole process (a segmentation fault, seen with scipy 1.17
on one flipped bit). A replay that serves a contest must not die of a file.
"""

import subprocess
import sys
from pathlib import Path

from bci_stream.errors import SourceError

PATIENCE_S = 120.0
# Errors are passed over here: the real reading tells them, with their message.
_LOAD = """
import sys
try:
    from scipy.io import loadmat
    loadmat(sys.argv[1])
except NotImplementedError:  # version 7.3: HDF5
    try:
        import h5py
        with h5py.File(sys.argv[1]) as file:
            file.visititems(lambda _, item: isinstance(item, h5py.Dataset) and item[()] is None)
    except Exception:
        pass
except Exception:
    pass
"""


def probe_matlab(path: Path, patience_s: float = PATIENCE_S) -> None:
    """Refuse a MATLAB file that crashes its parser, or never lets it end."""
    command = [sys.executable, "-I", "-c", _LOAD, str(path.resolve())]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{path} was not read within {patience_s:g} s: it is damaged") from error
    if ended.returncode < 0:
        raise SourceError(
            f"{path} is damaged: reading it as MATLAB crashes (signal {-ended.returncode})"
        )
