"""The lists of a pickle: they may name each other again and again, and so stand for numbers without end."""

import os
from typing import IO, Any, NamedTuple

import numpy as np

from bci_stream.errors import SourceError

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
