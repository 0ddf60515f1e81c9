"""A MATLAB 7.3 file is HDF5: its matrices, texts, cells of texts, and the fields of its structs."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError

_HDF5 = b"\x89HDF\r\n\x1a\n"


def is_mat73(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(520)
    return head.startswith(_HDF5) or head[512:].startswith(_HDF5)  # MATLAB puts a text before it


Fields = dict[str, NDArray[Any]]
Variables = dict[str, NDArray[Any] | Fields]
"""The variables of a MATLAB file; of a struct, its fields."""


def load_mat73(path: Path) -> Variables:
    """The variables that can be part of a recording, as scipy gives those of older versions."""
    h5py = _h5py(path)
    variables: Variables = {}
    with h5py.File(path, "r") as file:
        # What begins with # is where MATLAB keeps the things that cells point to.
        for name, item in file.items():
            if isinstance(item, h5py.Dataset):
                variables |= _named(h5py, name, item)
            elif not name.startswith("#") and "MATLAB_sparse" not in item.attrs:
                variables[name] = _fields(h5py, item)
    return variables


def _fields(h5py: Any, struct: Any) -> Fields:
    fields: Fields = {}
    for name, item in struct.items():
        fields |= _named(h5py, name, item)
    return fields


def _h5py(path: Path) -> Any:
    try:
        return import_module("h5py")
    except ImportError as error:
        raise SourceError(
            f"{path} is a MATLAB 7.3 file, which needs h5py: `pip install h5py`, or save it in "
            "MATLAB with save(..., '-v7')"
        ) from error


def _named(h5py: Any, name: str, item: Any) -> Fields:
    """{name: array}; nothing for what is no matrix, no text and no cell of texts."""
    if not isinstance(item, h5py.Dataset) or "MATLAB_empty" in item.attrs:
        return {}
    if _is_text(item):
        return {name: np.array(_lines(item))}
    if h5py.check_ref_dtype(item.dtype) is h5py.Reference:
        cells = [item.file[reference] for reference in item[()].T.reshape(-1) if reference]
        texts = [_lines(cell)[0] for cell in cells if _is_text(cell)]
        return {name: np.array(texts)} if texts and len(texts) == item.size else {}
    # MATLAB stores by columns, HDF5 by rows: every matrix comes out turned.
    return {name: np.asarray(item).T} if item.dtype.kind in "fiu" else {}


def _is_text(item: Any) -> bool:
    """A row of UTF-16 units, or several; an empty text has its size where its letters would be."""
    is_char = item.attrs.get("MATLAB_class") == b"char" and "MATLAB_empty" not in item.attrs
    return is_char and item.dtype == np.uint16 and item.ndim == 2


def _lines(item: Any) -> list[str]:
    return [row.tobytes().decode("utf-16-le") for row in np.asarray(item, dtype="<u2").T]
