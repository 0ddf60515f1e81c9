"""Script that reads a pickle in a child process: `python -I pickle_child.py FILE OUT`.

Only numpy arrays, numbers, texts, lists and dicts are admitted; nothing else can be named by the pickle. The
arrays are written to OUT as .npz, without pickling. An error is one line on standard error and exit code 1.
The process has a limit of memory; its parent sets the deadline.
"""

import pickle
import resource
import sys
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

try:
    from numpy._core import multiarray, numeric
except ImportError:  # numpy 1
    from numpy.core import multiarray, numeric  # type: ignore[no-redef]

MEMORY_BYTES = 2 << 30
"""Memory for Python and numpy, and for what a small file expands to."""

MEMORY_PER_BYTE = 8
MAX_DEPTH = 8
NUMBER_BYTES = 8
FREE_NUMBERS = 1_000_000
"""Lists of so many numbers are admitted in any file: a small one may repeat a row of zeros."""


def _plain_dtype(name: Any, *_flags: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or np.dtype(name).kind not in "biufUS":
        shown = name[:40] if isinstance(name, str) else type(name).__name__
        raise ValueError(f"an array of {shown!r} holds objects, which could run code")
    return np.dtype(name, align=False, copy=True)  # a copy: the byte order follows as its state


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Replaces _codecs.encode, with which protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("a pickle may only encode bytes as latin1")
    return text.encode("latin1")


def _empty_bytes() -> bytes:
    """Replaces bytes, with which protocol 2 writes no bytes."""
    return b""


ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _plain_dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _empty_bytes,
}
for _core in ("numpy.core", "numpy._core"):
    ADMITTED[f"{_core}.multiarray", "_reconstruct"] = multiarray._reconstruct
    ADMITTED[f"{_core}.multiarray", "scalar"] = multiarray.scalar
    ADMITTED[f"{_core}.numeric", "_frombuffer"] = numeric._frombuffer  # type: ignore[attr-defined]


class ArraysOnly(pickle.Unpickler):
    """An unpickler in which only the names of ADMITTED can be used."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise ValueError(
                f"it names {module}.{name}, which could run code; only numpy arrays, numbers, texts, lists "
                "and dicts are read"
            )
        return ADMITTED[module, name]


class _Extent(NamedTuple):
    """Number of values in the array that a list makes, and bytes of the widest value."""

    values: int
    width: int


def _check_lists(size: int, named: dict[str, Any]) -> None:
    """Refuse lists that contain each other and expand to arrays far larger than the file."""
    known: dict[tuple[int, int], _Extent] = {}
    lists = [value for value in named.values() if isinstance(value, list | tuple)]
    extents = [_extent(value, MAX_DEPTH, known) for value in lists]
    needed = sum(extent.values * extent.width for extent in extents)
    if needed > NUMBER_BYTES * max(size, FREE_NUMBERS):
        raise ValueError(
            f"it has {size} bytes, but its lists stand for {sum(extent.values for extent in extents)} "
            f"values of up to {max(extent.width for extent in extents)} bytes: lists contain each other many "
            "times, as in no recording; save the data as a numpy array"
        )


def _extent(value: Any, depth: int, known: dict[tuple[int, int], _Extent]) -> _Extent:
    """known: by identity and depth, because a list may be contained a million times."""
    if isinstance(value, float | int):
        return _Extent(1, NUMBER_BYTES)
    if isinstance(value, np.ndarray):
        return _Extent(value.size, value.itemsize)
    if isinstance(value, str | bytes):
        return _Extent(1, max(4 * len(value), NUMBER_BYTES))
    if not isinstance(value, list | tuple):
        return _Extent(1, NUMBER_BYTES)
    if depth == 0:
        raise ValueError("its lists are nested too deeply for a recording")
    if (id(value), depth) not in known:
        parts = [_extent(item, depth - 1, known) for item in value]
        width = max((part.width for part in parts), default=NUMBER_BYTES)
        known[id(value), depth] = _Extent(sum(part.values for part in parts), width)
    return known[id(value), depth]


def _named(loaded: Any) -> dict[str, Any]:
    if not isinstance(loaded, dict):
        return {"data": loaded}
    for key in loaded:
        if not isinstance(key, str | int | float):
            raise ValueError(f"a dict has a {type(key).__name__} for a key")
    return {str(key): value for key, value in loaded.items()}


def load_arrays(file: IO[bytes], size: int) -> dict[str, NDArray[Any]]:
    """The arrays of a pickle, by name; `data` for one that is not in a dict."""
    named = _named(ArraysOnly(file).load())
    _check_lists(size, named)
    arrays = {name: np.asarray(value) for name, value in named.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biufUS":
            raise ValueError(f"{name[:40]!r} is no array of numbers or texts")
    return arrays


def main(path: Path, out: Path) -> None:
    size = path.stat().st_size
    limit = MEMORY_BYTES + MEMORY_PER_BYTE * size
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with path.open("rb") as file:
        arrays = load_arrays(file, size)
    numbered = {str(number): array for number, array in enumerate(arrays.values())}
    with out.open("wb") as file:
        np.savez(file, **{"names": np.array(list(arrays), dtype=str), **numbered})  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except MemoryError:
        sys.exit("it needs more memory than a recording of its size does")
    except Exception as error:  # noqa: BLE001 - the end of the process; a parser may raise anything
        sys.exit(ascii(str(error))[1:-1] or type(error).__name__)
