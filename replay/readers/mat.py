"""A MATLAB file: variables in our array layout (version 7.3 where h5py is installed)."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.options import SourceOptions
from replay.readers.array_layout import content_of_arrays
from replay.readers.content import Content
from replay.readers.crash_probe import probe_matlab
from replay.readers.guard import reading
from replay.readers.mat73 import Fields, Variables, is_mat73, load_mat73
from replay.readers.mat_structs import recording_in


def read_mat(path: Path, options: SourceOptions) -> Content:
    """Read the variables of a .mat; ?variable= names one, a struct, or STRUCT.FIELD."""
    with reading(str(path), "MATLAB"):
        probe_matlab(path)
        variables = load_mat73(path) if is_mat73(path) else _load_older(path)
        arrays, variable = recording_in(path.name, variables, options.variable)
        chosen = dataclasses.replace(options, variable=variable)
        return content_of_arrays(path.name, "MATLAB", arrays, chosen)


def _load_older(path: Path) -> Variables:
    from scipy.io import loadmat

    loaded = loadmat(path, squeeze_me=False, struct_as_record=True)
    return {
        key: _fields_or_texts(value)
        for key, value in loaded.items()
        if not key.startswith("__") and isinstance(value, np.ndarray)
    }


def _fields_or_texts(value: NDArray[Any]) -> NDArray[Any] | Fields:
    """A 1 x 1 struct gives its fields; a cell of texts becomes an array of texts."""
    if value.dtype.names and value.size == 1:
        record = value.reshape(-1)[0]
        return {name: _texts(np.asarray(record[name])) for name in value.dtype.names}
    return _texts(value)


def _texts(value: NDArray[Any]) -> NDArray[Any]:
    if value.dtype != object:
        return value
    cells = [np.asarray(cell) for cell in value.reshape(-1)]
    if cells and all(cell.dtype.kind == "U" and cell.size == 1 for cell in cells):
        return np.array([str(cell.reshape(-1)[0]) for cell in cells])
    return value
