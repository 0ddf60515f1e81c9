"""A pickle file: the emotion track's .pkl (33 x N), or a dict of arrays in our layout."""

import dataclasses
import math
import os
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.arrays import Arrays, content_of_arrays
from replay.readers.guard import reading
from tracks.emotion import TRACK

_NUMBER_BYTES = 8
# So many numbers may be in any file: a small one may well say a row of zeros only once.
_FREE_NUMBERS = 1_000_000


class _Extent(NamedTuple):
    """How many values an array of a list would have, and the bytes of the widest."""

    values: int
    width: int


_A_NUMBER = _Extent(1, _NUMBER_BYTES)


def check_lists(file: IO[bytes], loaded: Any) -> None:
    """Refuse lists that are short in the file, but without end as arrays."""
    named = loaded.values() if isinstance(loaded, dict) else [loaded]
    known: dict[int, _Extent] = {}
    extents = [_extent(value, known) for value in named if isinstance(value, list)]
    needed = sum(extent.values * extent.width for extent in extents)
    size = file.seek(0, os.SEEK_END)
    if needed > _NUMBER_BYTES * max(size, _FREE_NUMBERS):
        raise SourceError(
            f"{getattr(file, 'name', 'the pickle')} has {size} bytes, but its lists stand for "
            f"{sum(extent.values for extent in extents)} values of up to "
            f"{max(extent.width for extent in extents)} bytes: it names the same lists again and "
            "again, as no recording does; save the data as a numpy array"
        )


def _extent(value: Any, known: dict[int, _Extent]) -> _Extent:
    if isinstance(value, float | int):  # nearly all are: the others can be slow
        return _A_NUMBER
    if isinstance(value, np.ndarray):
        return _Extent(value.size, value.itemsize)
    if isinstance(value, str | bytes):
        return _Extent(1, max(4 * len(value), _NUMBER_BYTES))
    if not isinstance(value, list):
        return _A_NUMBER
    if id(value) not in known:
        parts = [_extent(item, known) for item in value]
        width = max((part.width for part in parts), default=_NUMBER_BYTES)
        known[id(value)] = _Extent(sum(part.values for part in parts), width)
    return known[id(value)]


_PLAIN_TYPE = re.compile(r"b1|[iu][1248]|f[248]|U\d{1,4}|S\d{1,4}")
_ORDERS = {"<": "<", ">": ">", "=": "=", "|": "="}
_MAX_DEPTH = 8
_MAX_AXIS = 2**48


def _said(value: Any) -> str:
    """A value as a message may show it: lists only by their type, for they may be endless."""
    return repr(value[:40] if isinstance(value, str) else type(value).__name__)


class _Dtype:
    """Stands for numpy.dtype: a type name and a byte order, nothing else."""

    def __init__(self, name: Any, *_flags: Any) -> None:
        self._name, self._order = name, "|"

    def set_state(self, state: Any) -> None:
        self._order = state[1]

    def real(self) -> np.dtype[Any]:
        name, order = self._name, self._order
        if not (isinstance(name, str) and _PLAIN_TYPE.fullmatch(name)):
            raise ValueError(f"an array of {_said(name)} holds no numbers")
        if not (isinstance(order, str) and order in _ORDERS):
            raise ValueError(f"an array has a byte order of {_said(order)}")
        return np.dtype(_ORDERS[order] + name)


class _Array:
    """Stands for numpy.ndarray: shape, type and bytes, checked against each other before use."""

    def __init__(self, *_arguments: Any) -> None:
        self._state: Any = None

    def set_state(self, state: Any) -> None:
        self._state = state

    def real(self) -> NDArray[Any]:
        _, shape, dtype, fortran, data = self._state
        return _filled(data, dtype, shape, "F" if fortran else "C")


class _Filled:
    """Stands for numpy's _frombuffer, the way protocol 5 writes an array."""

    def __init__(self, data: Any, dtype: Any, shape: Any, order: Any, *_more: Any) -> None:
        self._parts = (data, dtype, shape, order)

    def real(self) -> NDArray[Any]:
        data, dtype, shape, order = self._parts
        return _filled(data, dtype, shape, "F" if order == "F" else "C")


class _Scalar:
    """Stands for a numpy scalar."""

    def __init__(self, dtype: Any, data: Any = b"") -> None:
        self._dtype, self._data = dtype, data

    def real(self) -> NDArray[Any]:
        return _filled(self._data, self._dtype, (), "C")


class _NdarrayType:
    """Stands for the type numpy.ndarray where a pickle only mentions it."""


def _latin1(text: Any, encoding: Any = "latin1") -> bytes:
    """Stands for _codecs.encode, which old protocols use to spell out bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("a pickle may only spell out bytes")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Stands for bytes, which old protocols call for the bytes of an array that has none."""
    return b""


def _filled(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    raw = _raw(data)
    if not isinstance(dtype, _Dtype):
        raise ValueError(f"an array has {_said(dtype)} for its type")
    kind, axes = dtype.real(), _axes(shape)
    if math.prod(axes) * kind.itemsize != len(raw):
        raise ValueError(f"an array of shape {axes} and {kind} has {len(raw)} bytes")
    return np.frombuffer(raw, dtype=kind).reshape(axes, order=order)


def _raw(data: Any) -> bytes:
    """The bytes of an array; Python 2 wrote them as a text. bytes(n) of a number would make n."""
    if isinstance(data, str):
        return data.encode("latin1")
    if not isinstance(data, bytes | bytearray):
        raise ValueError(f"an array has {_said(data)} where its bytes should be")
    return bytes(data)


def _axes(shape: Any) -> tuple[int, ...]:
    is_shape = isinstance(shape, list | tuple) and len(shape) <= _MAX_DEPTH
    if not is_shape or not all(isinstance(n, int) and 0 <= n < _MAX_AXIS for n in shape):
        raise ValueError("an array has no shape: whole numbers of 0 and more, 8 at most")
    return tuple(shape)


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _NdarrayType,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _Filled,
    ("numpy._core.numeric", "_frombuffer"): _Filled,
    ("numpy.core.multiarray", "scalar"): _Scalar,
    ("numpy._core.multiarray", "scalar"): _Scalar,
    ("_codecs", "encode"): _latin1,
    ("__builtin__", "bytes"): _no_bytes,
}


# What pickled numbers, texts, lists, dicts and arrays are written with: no sets, no objects.
_ALLOWED = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.POP_MARK),
    *(pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE, pickle.BUILD),
    *(pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE),
    *(pickle.GET, pickle.BINGET, pickle.LONG_BINGET, pickle.DUP),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.FLOAT, pickle.BINFLOAT),
    *(pickle.INT, pickle.BININT, pickle.BININT1, pickle.BININT2),
    *(pickle.LONG, pickle.LONG1, pickle.LONG4),
    *(pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING),
    *(pickle.UNICODE, pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8),
    *(pickle.BINBYTES, pickle.SHORT_BINBYTES, pickle.BINBYTES8, pickle.BYTEARRAY8),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.EMPTY_LIST, pickle.LIST, pickle.APPEND, pickle.APPENDS),
    *(pickle.EMPTY_DICT, pickle.DICT, pickle.SETITEM, pickle.SETITEMS),
)


class _Opcodes(dict[int, Any]):
    def __missing__(self, code: int) -> Any:
        raise ValueError(f"its instruction {bytes([code])!r} is for more than arrays and lists")


# The unpickler in C can't be told what to leave alone: nine bytes make it take gigabytes for its
# memo, and a tuple of tuples keeps it busy for ever as the key of a dict. So it is the one in Python.
class _ArraysOnly(pickle._Unpickler):
    stack: list[Any]
    read: Callable[[int], bytes]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Any]] = _Opcodes(
        {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _ALLOWED}
    )

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._file = getattr(file, "name", "the pickle")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise SourceError(
                f"{self._file} is a pickle that names {module}.{name}: it is refused, for it could "
                "run code; only numpy arrays, numbers, texts, lists and dicts are read"
            )
        return _STAND_INS[module, name]

    def load_build(self) -> None:
        """Nothing is set but the state of a stand-in's instance: a class would outlive the file."""
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Dtype | _Array):
            raise ValueError("a pickle may only set the state of arrays and their types")
        self.stack[-1].set_state(state)

    def load_bytearray8(self) -> None:
        """As bytes: a bytearray would be made before it is known whether the file has so many."""
        (length,) = struct.unpack("<Q", self.read(8))
        self.append(self.read(length))

    # Tuples become lists, which no dict takes for a key: to hash nested ones may take for ever.

    def load_tuple(self) -> None:
        items = self.pop_mark()  # this changes what append is
        self.append(items)

    def _load_short_tuple(self, length: int) -> None:
        self.stack[-length:] = [self.stack[-length:]]

    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
    dispatch[pickle.TUPLE[0]] = load_tuple
    dispatch[pickle.TUPLE1[0]] = lambda self: self._load_short_tuple(1)
    dispatch[pickle.TUPLE2[0]] = lambda self: self._load_short_tuple(2)
    dispatch[pickle.TUPLE3[0]] = lambda self: self._load_short_tuple(3)


def load_arrays(file: IO[bytes]) -> Any:
    """The arrays, lists and dicts of a pickle; nothing of it is executed."""
    loaded = _ArraysOnly(file).load()
    arrays = _real(loaded, _MAX_DEPTH, {})
    check_lists(file, arrays)
    return arrays


def _real(value: Any, depth: int, known: dict[tuple[int, int], Any]) -> Any:
    """known: what was turned already, by id and depth, for it may stand there a million times."""
    if depth == 0:
        raise ValueError("the pickle is nested too deeply for a recording")
    if not isinstance(value, dict | list | _Array | _Filled | _Scalar):
        return value
    place = (id(value), depth)
    if place not in known:
        known[place] = _turned(value, depth, known)
    return known[place]


def _turned(value: Any, depth: int, known: dict[tuple[int, int], Any]) -> Any:
    if isinstance(value, dict):
        return {str(key): _real(item, depth - 1, known) for key, item in value.items()}
    if isinstance(value, list):
        return [_real(item, depth - 1, known) for item in value]
    return value.real()


EMOTION_ROWS = 33


def read_pickle(path: Path, options: SourceOptions) -> Content:
    """Read a .pkl through an unpickler that admits numpy arrays only."""
    with reading(str(path), "pickle"):
        with path.open("rb") as file:
            loaded = load_arrays(file)
        named = loaded if isinstance(loaded, dict) else {"data": loaded}
        arrays = {key: np.asarray(value) for key, value in named.items()}
        if not _is_emotions(arrays, options):
            return content_of_arrays(path.name, "pickle", arrays, options)
        emotion = dataclasses.replace(options, track=TRACK.name)
        content = content_of_arrays(path.name, "pickle", arrays, emotion)
        said = "33 rows, and neither a track nor a rate named: taken as the emotion track's"
        return dataclasses.replace(content, track=TRACK.name, notes=(said, *content.notes))


def _is_emotions(arrays: Arrays, options: SourceOptions) -> bool:
    alone = set(arrays) == {"data"} and arrays["data"].ndim == 2
    return (
        alone
        and EMOTION_ROWS in arrays["data"].shape
        and not (options.track or options.rate or options.leads)
    )
