"""A MATLAB file: variables in our array layout (version 7.3 needs the extra `matlab73`)."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.arrays.layout import DATA_KEYS, LAYOUT_KEYS, content_of_arrays, data_key
from replay.readers.guard import HDF5, is_version_73, probe_matlab, reading

Fields = dict[str, NDArray[Any]]
Variables = dict[str, NDArray[Any] | Fields]
"""The variables of a MATLAB file; the fields of a struct."""


def read_mat(path: Path, options: SourceOptions) -> Content:
    """Read the variables of a .mat; ?variable= names one, a struct, or STRUCT.FIELD."""
    with reading(str(path), "MATLAB"):
        probe_matlab(path)
        variables = _load_73(path) if is_version_73(path) else _load_older(path)
        arrays, variable = recording_in(path.name, variables, options.variable)
        chosen = dataclasses.replace(options, variable=variable)
        return content_of_arrays(path.name, "MATLAB", arrays, chosen)


def _load_73(path: Path) -> Variables:
    try:
        import h5py
        from pymatreader import read_mat as read_variables
    except ImportError as error:
        raise SourceError(
            f"{path} is a MATLAB 7.3 file, which needs `pip install bci-stream[matlab73]`; or save it in "
            "MATLAB with save(..., '-v7')"
        ) from error
    with path.open("rb") as start:
        is_plain = start.read(len(HDF5)) == HDF5
    if is_plain:  # HDF5 without MATLAB's header, which pymatreader does not recognise
        with h5py.File(path) as file:
            return _variables_73(path.name, _plain_hdf5(file))
    return _variables_73(path.name, read_variables(str(path)))


def _plain_hdf5(group: Any) -> dict[str, Any]:
    """Numbers by name, and those of groups; matrices as MATLAB has them, transposed."""
    return {
        name: _plain_hdf5(item) if hasattr(item, "items") else np.asarray(item).T
        for name, item in group.items()
    }


def _variables_73(file: str, loaded: Mapping[str, Any]) -> Variables:
    variables: Variables = {}
    for name, value in sorted(loaded.items()):
        if isinstance(value, dict) and _is_fieldtrip(value):
            variables[name] = _of_fieldtrip(file, value)
        elif isinstance(value, dict):
            fields = {field: _array_73(item) for field, item in sorted(value.items())}
            variables[name] = {k: array for k, array in fields.items() if array is not None}
        elif (array := _array_73(value)) is not None:
            variables[name] = array
    return variables


def _array_73(value: Any) -> NDArray[Any] | None:
    """A number, a text, a list of texts or a matrix as an array; None for anything else.

    pymatreader drops axes of length 1: a vector becomes a row again.
    """
    if isinstance(value, list) and not (value and all(isinstance(each, str) for each in value)):
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "biufU" or not array.size:
        return None
    return array[np.newaxis] if array.ndim == 1 and array.dtype.kind != "U" else array


def _load_older(path: Path) -> Variables:
    from scipy.io import loadmat

    loaded = loadmat(path, squeeze_me=False, struct_as_record=True)
    return {
        key: _fields_or_texts(path.name, value)
        for key, value in loaded.items()
        if not key.startswith("__") and isinstance(value, np.ndarray)
    }


def _fields_or_texts(file: str, value: NDArray[Any]) -> NDArray[Any] | Fields:
    """The fields of a 1 x 1 struct; a cell of texts as an array of texts. file: its name, for errors."""
    if value.dtype.names and value.size == 1:
        record = value.reshape(-1)[0]
        if _is_fieldtrip(value.dtype.names):
            return _of_fieldtrip(file, {name: record[name] for name in value.dtype.names})
        return {name: _texts(np.asarray(record[name])) for name in value.dtype.names}
    return _texts(value)


def _texts(value: NDArray[Any]) -> NDArray[Any]:
    if value.dtype != object:
        return value
    cells = [np.asarray(cell) for cell in value.reshape(-1)]
    if cells and all(cell.dtype.kind == "U" and cell.size == 1 for cell in cells):
        return np.array([str(cell.reshape(-1)[0]) for cell in cells])
    return value


def _is_fieldtrip(names: Iterable[str]) -> bool:
    """Whether a struct with these fields is one of FieldTrip's raw data."""
    return {"label", "trial", "time"} <= set(names)


def _of_fieldtrip(name: str, fields: Mapping[str, Any]) -> Fields:
    """FieldTrip's raw data as an array, its rate and its leads. Raises SourceError for epochs."""
    trials = _cells(fields["trial"])
    if len(trials) != 1:
        raise SourceError(
            f"{name} holds {len(trials)} trials of FieldTrip, and no continuous recording; save data that "
            "ft_preprocessing read without cfg.trl, or with cfg.continuous = 'yes'"
        )
    rate = fields.get("fsample")
    if rate is None:
        steps = np.diff(np.asarray(_cells(fields["time"])[0], dtype=np.float64).reshape(-1))
        rate = round(1 / float(np.median(steps)), 6)
    labels = _texts(np.asarray(fields["label"], dtype=object))
    return {
        "data": np.atleast_2d(trials[0]),
        "rate": np.asarray(rate, dtype=np.float64).reshape(-1)[:1],
        "leads": np.asarray([str(label) for label in labels.reshape(-1)]),
    }


def _cells(value: Any) -> list[Any]:
    """The contents of a cell array; pymatreader has a list, and of a cell of one its content."""
    if isinstance(value, np.ndarray):
        return [value] if value.dtype != object else list(value.reshape(-1))
    return list(value)


class _Choice(NamedTuple):
    """struct: the one that holds the data; None if they are not in a struct. variable: their name in it.

    struct_first: the user named the struct, so its fields take precedence over variables of the file.
    """

    struct: str | None
    variable: str | None
    struct_first: bool = False


def recording_in(name: str, variables: Variables, wanted: str | None) -> tuple[Fields, str | None]:
    """The arrays that belong together, and which of them holds the data, where that is known."""
    plain = {key: item for key, item in variables.items() if not isinstance(item, dict)}
    structs = {key: item for key, item in variables.items() if isinstance(item, dict)}
    choice = _choice_of(name, plain, structs, wanted) if wanted else _usual(name, plain, structs)
    if choice is None:  # not there: the error that follows lists all variables
        return plain | _dotted(structs), wanted
    own = structs[choice.struct] if choice.struct else {}
    stated = plain | own if choice.struct_first else own | plain
    others = {
        key: fields
        for key, fields in structs.items()
        if key != choice.struct and not _first_data_key(fields) and choice.variable not in fields
    }
    if not wanted:
        _check_agreement(name, others, stated)
    return _merged(others) | stated, choice.variable


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
        f"{name}: {len(holders)} of its structs have a field {field!r}: {shown}. State "
        "which one to use with ?variable=, which takes a variable, a struct "
        f"(?variable={holders[0]}) or a field of one (?variable={holders[0]}.NAME)"
    )


def _check_agreement(name: str, structs: Mapping[str, Fields], stated: Fields) -> None:
    """Refuse a field of the layout that two structs have and nothing of higher precedence has."""
    for field in LAYOUT_KEYS:
        holders = _holders(structs, field)
        if len(holders) > 1 and field not in stated:
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
