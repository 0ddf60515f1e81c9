"""A safe pickle: numpy arrays only, and no foreign code.

Unpickling calls whatever the file names. Here it may name the few things that a pickled array
needs, and each of these is a stand-in of our own: nothing of numpy, let alone of anybody else, is
called with what the file says.
"""

import math
import pickle
import re
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError

_PLAIN_TYPE = re.compile(r"b1|[iu][1248]|f[248]|U\d{1,4}|S\d{1,4}")
_ORDERS = {"<": "<", ">": ">", "=": "=", "|": "="}
_MAX_DEPTH = 8


class _Dtype:
    """Stands for numpy.dtype: a type name and a byte order, nothing else."""

    def __init__(self, name: Any, *_flags: Any) -> None:
        self._name, self._order = str(name), "|"

    def __setstate__(self, state: Any) -> None:
        self._order = str(state[1])

    def real(self) -> np.dtype[Any]:
        if not _PLAIN_TYPE.fullmatch(self._name) or self._order not in _ORDERS:
            raise ValueError(f"an array of {self._name!r} holds no numbers")
        return np.dtype(_ORDERS[self._order] + self._name)


class _Array:
    """Stands for numpy.ndarray: shape, type and bytes, checked against each other before use."""

    def __init__(self, *_arguments: Any) -> None:
        self._state: Any = None

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def real(self) -> NDArray[Any]:
        _, shape, dtype, fortran, data = self._state
        return _filled(data, dtype.real(), tuple(map(int, shape)), "F" if fortran else "C")


class _Filled:
    """Stands for numpy's _frombuffer, the way protocol 5 writes an array."""

    def __init__(self, data: Any, dtype: Any, shape: Any, order: Any, *_more: Any) -> None:
        self._parts = (data, dtype, shape, order)

    def real(self) -> NDArray[Any]:
        data, dtype, shape, order = self._parts
        return _filled(data, dtype.real(), tuple(map(int, shape)), "F" if order == "F" else "C")


class _Scalar:
    """Stands for a numpy scalar."""

    def __init__(self, dtype: Any, data: Any = b"") -> None:
        self._dtype, self._data = dtype, data

    def real(self) -> NDArray[Any]:
        return _filled(self._data, self._dtype.real(), (), "C")


class _NdarrayType:
    """Stands for the type numpy.ndarray where a pickle only mentions it."""


def _latin1(text: Any, encoding: Any = "latin1") -> bytes:
    """Stands for _codecs.encode, which old protocols use to spell out bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("a pickle may only spell out bytes")
    return text.encode("latin1")


def _filled(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any) -> NDArray[Any]:
    raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {shape} and {dtype} has {len(raw)} bytes")
    return np.frombuffer(raw, dtype=dtype).reshape(shape, order=order)


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
}


class _ArraysOnly(pickle.Unpickler):
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


def load_arrays(file: IO[bytes]) -> Any:
    """The arrays, lists and dicts of a pickle; nothing of it is executed."""
    return _real(_ArraysOnly(file).load(), _MAX_DEPTH)


def _real(value: Any, depth: int) -> Any:
    if depth == 0:
        raise ValueError("the pickle is nested too deeply for a recording")
    if isinstance(value, _Array | _Filled | _Scalar):
        return value.real()
    if isinstance(value, Mapping):
        return {str(key): _real(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_real(item, depth - 1) for item in value]
    return value
