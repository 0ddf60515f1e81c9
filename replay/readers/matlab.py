"""A MATLAB file: variables in our array layout (version 7.3 where h5py is installed)."""

import dataclasses
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.arrays import DATA_KEYS, LAYOUT_KEYS, content_of_arrays, data_key
from replay.readers.guard import probe_matlab, reading

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


class _Choice(NamedTuple):
    """struct: that holds the data; None where they are no field. variable: their name in there.

    struct_first: the user named the struct, so it goes even before the file's own variables.
    """

    struct: str | None
    variable: str | None
    struct_first: bool = False


def recording_in(name: str, variables: Variables, wanted: str | None) -> tuple[Fields, str | None]:
    """The arrays that belong together, and which of them holds the data, where that is known."""
    plain = {key: item for key, item in variables.items() if not isinstance(item, dict)}
    structs = {key: item for key, item in variables.items() if isinstance(item, dict)}
    choice = _choice_of(name, plain, structs, wanted) if wanted else _usual(name, plain, structs)
    if choice is None:  # what is wanted is not there: the error that follows lists all there is
        return plain | _dotted(structs), wanted
    own = structs[choice.struct] if choice.struct else {}
    said = plain | own if choice.struct_first else own | plain
    others = {
        key: fields
        for key, fields in structs.items()
        if key != choice.struct and not _first_data_key(fields) and choice.variable not in fields
    }
    if not wanted:
        _check_agreement(name, others, said)
    return _merged(others) | said, choice.variable


def _usual(name: str, plain: Fields, structs: Mapping[str, Fields]) -> _Choice:
    key = _first_data_key([*plain, *(field for fields in structs.values() for field in fields)])
    if key is None or key in plain:
        return _Choice(None, key)
    return _Choice(_only_holder(name, structs, key), key)


def _choice_of(
    name: str, plain: Fields, structs: Mapping[str, Fields], wanted: str
) -> _Choice | None:
    if wanted in plain:
        return _Choice(None, wanted)
    if wanted in structs:
        field = data_key(f"{name}: {wanted}", structs[wanted])
        return _Choice(wanted, field, struct_first=True)
    struct, _, field = wanted.rpartition(".")
    if field in structs.get(struct, {}):
        return _Choice(struct, field, struct_first=True)
    if _holders(structs, wanted):
        return _Choice(_only_holder(name, structs, wanted), wanted)
    return None


def _first_data_key(names: Iterable[str]) -> str | None:
    held = set(names)
    return next((key for key in DATA_KEYS if key in held), None)


def _only_holder(name: str, structs: Mapping[str, Fields], field: str) -> str:
    holders = _holders(structs, field)
    if len(holders) > 1:
        raise _several(name, holders, field)
    return holders[0]


def _holders(structs: Mapping[str, Fields], field: str) -> list[str]:
    return [struct for struct, fields in structs.items() if field in fields]


def _several(name: str, holders: list[str], field: str) -> SourceError:
    shown = ", ".join(f"{struct}.{field}" for struct in holders[:12])
    return SourceError(
        f"{name}: {len(holders)} of its structs have a field {field!r}: {shown}. Only one can be "
        "meant: say where the data are with ?variable=, which takes a variable, a struct "
        f"(?variable={holders[0]}) or a field of one (?variable={holders[0]}.NAME)"
    )


def _check_agreement(name: str, structs: Mapping[str, Fields], said: Fields) -> None:
    """Refuse structs of which two say what the layout asks for, and nothing before them does."""
    for field in LAYOUT_KEYS:
        holders = _holders(structs, field)
        if len(holders) > 1 and field not in said:
            raise _several(name, holders, field)


def _merged(structs: Mapping[str, Fields]) -> Fields:
    """The fields of all these structs; those of one name as STRUCT.FIELD."""
    return {
        field if len(_holders(structs, field)) == 1 else f"{struct}.{field}": array
        for struct, fields in structs.items()
        for field, array in fields.items()
    }


def _dotted(structs: Mapping[str, Fields]) -> Fields:
    return {
        f"{struct}.{field}": array
        for struct, fields in structs.items()
        for field, array in fields.items()
    }


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
