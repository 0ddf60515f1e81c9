"""A MATLAB file: variables in our array layout (version 7.3 where h5py is installed)."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.options import SourceOptions
from replay.readers.array_layout import content_of_arrays
from replay.readers.content import Content
from replay.readers.crash_probe import probe_matlab
from replay.readers.guard import reading

_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_mat(path: Path, options: SourceOptions) -> Content:
    """Read the variables of a .mat; a struct's fields count as variables too."""
    with reading(str(path), "MATLAB"):
        probe_matlab(path)
        arrays = _load_hdf5(path) if _is_hdf5(path) else _load_mat5(path)
        return content_of_arrays(path.name, "MATLAB", arrays, options)


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(520)
    return head.startswith(_HDF5) or head[512:].startswith(_HDF5)  # MATLAB puts a text before it


def _load_mat5(path: Path) -> dict[str, NDArray[Any]]:
    from scipy.io import loadmat

    loaded = loadmat(path, squeeze_me=False, struct_as_record=True)
    arrays: dict[str, NDArray[Any]] = {}
    for key, value in loaded.items():
        if not key.startswith("__") and isinstance(value, np.ndarray):
            arrays |= _flattened(key, value)
    return arrays


def _flattened(key: str, value: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """One variable; a 1 x 1 struct gives its fields; a cell of texts becomes an array of texts."""
    if value.dtype.names and value.size == 1:
        record = value.reshape(-1)[0]
        return {name: _texts(np.asarray(record[name])) for name in value.dtype.names}
    return {key: _texts(value)}


def _texts(value: NDArray[Any]) -> NDArray[Any]:
    if value.dtype != object:
        return value
    cells = [np.asarray(cell) for cell in value.reshape(-1)]
    if cells and all(cell.dtype.kind == "U" and cell.size == 1 for cell in cells):
        return np.array([str(cell.reshape(-1)[0]) for cell in cells])
    return value


def _load_hdf5(path: Path) -> dict[str, NDArray[Any]]:
    try:
        h5py: Any = import_module("h5py")
    except ImportError as error:
        raise SourceError(
            f"{path} is a MATLAB 7.3 file, which needs h5py: `pip install h5py`, or save it in "
            "MATLAB with save(..., '-v7')"
        ) from error
    with h5py.File(path, "r") as file:
        # MATLAB stores by columns, HDF5 by rows: every matrix comes out turned.
        return {
            key: np.asarray(item).T
            for key, item in file.items()
            if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiu"
        }
