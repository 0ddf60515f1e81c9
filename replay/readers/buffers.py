"""Buffers: where the samples of a file stand, and one look through all of them.

FIF, BrainVision and EEGLAB keep samples one after the other, all channels of one together, in plain
words. Such a file is looked through as fast as it can be read: nothing is made of its words, where MNE
would turn each into double precision; and the one channel that holds triggers is picked up on the way.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import FileIO
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.readers.content import Stretch

PIECE_BYTES = 1 << 22
"""So much is read at once: it stays in the cache while it is looked at, and threads seldom meet."""

THREADS = min(4, os.cpu_count() or 1)

# The exponent's upper seven bits, from which on a float may be infinite as float32 microvolts, or no number.
_TOO_HIGH = {np.dtype(">f4"): 0x70, np.dtype("<f4"): 0x70, np.dtype(">f8"): 0x45}


@dataclass(frozen=True)
class Row:
    """Equal buffers of samples, equally far from each other. Without a path: a gap, all 0."""

    path: Path | None
    place: int
    step: int
    n_buffers: int
    buffer_samples: int

    @property
    def n_samples(self) -> int:
        return self.n_buffers * self.buffer_samples


def rows_of_run(path: Path, place: int, n_samples: int, sample_bytes: int) -> Iterator[Row]:
    """Samples without anything between them, as buffers that can be read at once."""
    at_once = max(1, PIECE_BYTES // sample_bytes)
    n_buffers, rest = divmod(n_samples, at_once)
    step = at_once * sample_bytes
    if n_buffers:
        yield Row(path, place, step, n_buffers, at_once)
    if rest:
        yield Row(path, place + n_buffers * step, step, 1, rest)


@dataclass(frozen=True)
class Look:
    """What was seen of a file.

    column: one channel's words as they stand in the file; empty where none was asked for.
    suspects: where something may stand that is no number.
    """

    column: NDArray[Any]
    suspects: tuple[Stretch, ...]


@dataclass(frozen=True)
class Buffers:
    """Rows of buffers one after the other; word: what a value is, in the file's byte order."""

    rows: tuple[Row, ...]
    n_channels: int
    word: np.dtype[Any]

    @property
    def n_samples(self) -> int:
        return sum(row.n_samples for row in self.rows)

    def look(self, channel: int | None = None) -> Look:
        """Read all of it once. Its beginning keeps everybody waiting, so every core helps."""
        plain = np.dtype(f"u{self.word.itemsize}")
        column = np.zeros(0 if channel is None else self.n_samples, plain)
        with ThreadPoolExecutor(THREADS, "look") as threads:
            shares = [
                threads.submit(self._look_at_share, share, channel, column)
                for share in range(THREADS)
            ]
            found = [stretch for share in shares for stretch in share.result()]
        return Look(column, tuple(sorted(found)))

    def _look_at_share(
        self, share: int, channel: int | None, column: NDArray[Any]
    ) -> list[Stretch]:
        """Every so manieth piece of the file: fills the column there, returns what is suspicious."""
        suspects = []
        sight = _Sight(self.word)
        begins = accumulate((row.n_samples for row in self.rows[:-1]), initial=0)
        for row, begin in zip(self.rows, begins, strict=True):
            if row.path is None:
                continue
            with row.path.open("rb", buffering=0) as file:
                for first, count in self._pieces(row, share):
                    sight.read(file, row.place + first * row.step, self._span(row, count))
                    start = begin + first * row.buffer_samples
                    stop = start + count * row.buffer_samples
                    if channel is not None:
                        into = column[start:stop].reshape(count, row.buffer_samples)
                        into[:] = self._words(sight, row, into, channel)
                    if sight.is_suspicious:
                        suspects.append((start, stop))
        return suspects

    def _span(self, row: Row, count: int) -> int:
        sample_bytes = self.n_channels * self.word.itemsize
        return (count - 1) * row.step + row.buffer_samples * sample_bytes

    def _words(self, sight: "_Sight", row: Row, like: NDArray[Any], channel: int) -> NDArray[Any]:
        place = sight.shift + channel * self.word.itemsize
        strides = (row.step, self.n_channels * self.word.itemsize)
        return np.ndarray(like.shape, like.dtype, sight.bytes.data, place, strides)

    def _pieces(self, row: Row, share: int) -> Iterator[tuple[int, int]]:
        """(first buffer, how many) of a share of a row: of several the words must stand in one line."""
        at_once = 1 if row.step % self.word.itemsize else max(1, PIECE_BYTES // row.step)
        for first in range(share * at_once, row.n_buffers, THREADS * at_once):
            yield first, min(at_once, row.n_buffers - first)


class _Sight:
    """A piece of a file as it was read, into memory that is used again for the next one.

    Whether a float is a number shows in its exponent alone. With big-endian words that is the byte in
    front; read in one byte before the end of an aligned word, it becomes that word's highest, as it is with
    little-endian words anyway. So the greatest word, once with a sign and once without, tells of all.
    """

    def __init__(self, word: np.dtype[Any]) -> None:
        self.shift = word.itemsize - 1 if word.str.startswith(">") else 0
        self.bytes = np.zeros(0, np.uint8)
        self._word, self._too_high = word, _TOO_HIGH.get(word)
        self._n_bytes = 0

    def read(self, file: FileIO, place: int, n_bytes: int) -> None:
        if len(self.bytes) < self.shift + n_bytes + self._word.itemsize:
            self.bytes = np.zeros(self.shift + n_bytes + self._word.itemsize, np.uint8)
        self._n_bytes = n_bytes
        into = self.bytes[self.shift : self.shift + n_bytes].data
        file.seek(place)
        while len(into) and (got := file.readinto(into)):
            into = into[got:]
        if len(into):
            raise SourceError(f"{file.name} ends within its samples")

    @property
    def is_suspicious(self) -> bool:
        if self._too_high is None:
            return False
        size = self._word.itemsize
        words = self.bytes[: self._n_bytes - self._n_bytes % size]
        shifted = 8 * (size - 1)
        highest = int(words.view(f"u{size}").max()) >> shifted
        highest_positive = int(words.view(f"i{size}").max()) >> shifted
        return highest >= 0x80 | self._too_high or highest_positive >= self._too_high


@dataclass(frozen=True)
class LookedColumn:
    """The words of one channel, as a look through the file has picked them up."""

    words: NDArray[Any]
    word: np.dtype[Any]
    gain: float

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.words[start:stop]

    def values(self, words: NDArray[Any]) -> NDArray[np.float64]:
        return words.view(self.word).astype(np.float64) * self.gain
