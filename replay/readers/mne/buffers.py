"""Buffers: where the samples of a file stand, and one look through all of them.

FIF, BrainVision and EEGLAB keep samples one after the other, all channels of one together, in plain
words. Such a file is looked through as fast as it can be read: nothing is made of its words, where MNE
would turn each into double precision; and the one channel that holds triggers is picked up on the way.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from io import FileIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.model.events import SCAN_THREADS, run_starts
from replay.model.signal import SampleRange
from replay.readers.mne.fif import HEADER

PIECE_BYTES = 1 << 22
"""So much is read at once: it stays in the cache while it is looked at, and threads seldom meet."""

# The exponent's upper seven bits, from which on a float may be infinite as float32 microvolts, or no number.
_TOO_HIGH = {np.dtype(">f4"): 0x70, np.dtype("<f4"): 0x70, np.dtype(">f8"): 0x45}


@dataclass(frozen=True)
class BufferRow:
    """Equal buffers of samples, equally far from each other. Without a path: a gap, all 0."""

    path: Path | None
    place: int
    step: int
    n_buffers: int
    buffer_samples: int

    @property
    def n_samples(self) -> int:
        return self.n_buffers * self.buffer_samples


BufferPiece = tuple[int, BufferRow, int, int]
"""A row's first sample, the row, and of its buffers the first and how many."""


def rows_of_run(path: Path, place: int, n_samples: int, sample_bytes: int) -> Iterator[BufferRow]:
    """Samples without anything between them, as buffers that can be read at once."""
    at_once = max(1, PIECE_BYTES // sample_bytes)
    n_buffers, rest = divmod(n_samples, at_once)
    step = at_once * sample_bytes
    if n_buffers:
        yield BufferRow(path, place, step, n_buffers, at_once)
    if rest:
        yield BufferRow(path, place + n_buffers * step, step, 1, rest)


@dataclass(frozen=True)
class Look:
    """What was seen of a file.

    starts: samples at which one channel may take on a new value; words: the numbers that the file has
    there. Both are empty where no channel was asked for.
    suspects: where something may stand that is no number.
    """

    starts: NDArray[np.intp]
    words: NDArray[Any]
    suspects: tuple[SampleRange, ...]


@dataclass(frozen=True)
class Buffers:
    """Rows of buffers one after the other; word: what a value is, in the file's byte order."""

    rows: tuple[BufferRow, ...]
    n_channels: int
    word: np.dtype[Any]

    @property
    def n_samples(self) -> int:
        return sum(row.n_samples for row in self.rows)

    def look(self, channel: int | None = None) -> Look:
        """Read all of it once. Its beginning keeps everybody waiting, so every core helps.

        Whoever is done takes the next piece: one core may be taken away for a while.
        """
        pieces = iter(list(self._pieces()))  # of a list, since threads may share no generator
        with ThreadPoolExecutor(SCAN_THREADS, "look") as threads:
            looks = list(threads.map(lambda _: self._look_at(pieces, channel), range(SCAN_THREADS)))
        starts = np.concatenate([look.starts for look in looks])
        words = np.concatenate([look.words for look in looks])
        order = np.argsort(starts)
        suspects = sorted(stretch for look in looks for stretch in look.suspects)
        return Look(starts[order], words[order], tuple(suspects))

    def _look_at(self, pieces: Iterator[BufferPiece], channel: int | None) -> Look:
        starts: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        words: list[NDArray[Any]] = [np.empty(0, self.word)]
        suspects = []
        with closing(_Sight(self.word)) as sight:
            for begin, row, first, count in pieces:
                start = begin + first * row.buffer_samples
                if row.path is None:
                    starts.append(np.array([start]))
                    words.append(np.zeros(1, self.word))
                    continue
                sight.read(row.path, row.place + first * row.step, self._span(row, count))
                if channel is not None:
                    own = self._words(sight, row, count, channel)
                    changes = run_starts(own)
                    starts.append(start + changes)
                    words.append(own[changes].view(self.word))
                if sight.is_suspicious:
                    suspects.append((start, start + count * row.buffer_samples))
        return Look(np.concatenate(starts), np.concatenate(words), tuple(suspects))

    def _span(self, row: BufferRow, count: int) -> int:
        sample_bytes = self.n_channels * self.word.itemsize
        return (count - 1) * row.step + row.buffer_samples * sample_bytes

    def _words(self, sight: "_Sight", row: BufferRow, count: int, channel: int) -> NDArray[Any]:
        """One channel's words in a row, as whole numbers: bits are quicker to compare than floats."""
        size = self.word.itemsize
        shape, strides = (count, row.buffer_samples), (row.step, self.n_channels * size)
        place = sight.shift + channel * size
        words = np.ndarray(shape, f"u{size}", sight.bytes.data, place, strides)
        return np.ascontiguousarray(words).reshape(-1)

    def _pieces(self) -> Iterator[BufferPiece]:
        """Of several buffers that are read at once the words must stand in one line."""
        begins = accumulate((row.n_samples for row in self.rows[:-1]), initial=0)
        for begin, row in zip(begins, self.rows, strict=True):
            at_once = 1 if row.step % self.word.itemsize else max(1, PIECE_BYTES // row.step)
            for first in range(0, row.n_buffers, at_once):
                yield begin, row, first, min(at_once, row.n_buffers - first)


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
        self._path: Path | None = None
        self._file: FileIO | None = None

    def read(self, path: Path, place: int, n_bytes: int) -> None:
        if len(self.bytes) < self.shift + n_bytes + self._word.itemsize:
            self.bytes = np.zeros(self.shift + n_bytes + self._word.itemsize, np.uint8)
        self._n_bytes = n_bytes
        into = self.bytes[self.shift : self.shift + n_bytes].data
        file = self._opened(path)
        file.seek(place)
        while len(into) and (got := file.readinto(into)):
            into = into[got:]
        if len(into):
            raise SourceError(f"{path} ends within its samples")

    def _opened(self, path: Path) -> FileIO:
        if self._file is None or path != self._path:
            self.close()
            self._path, self._file = path, FileIO(path)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

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


_FIFF_WORDS = {4: ">f4", 5: ">f8", 3: ">i4", 2: ">i2", 16: ">i2"}
_BRAINVISION_WORDS = {"single": "<f4", "int": "<i4", "short": "<i2"}
_EEGLAB_WORD = "<f4"


def find_buffers(raw: Any, form: str) -> Buffers | None:
    """The buffers of a raw object of MNE, as it came from its reader; None wherever they are not plain."""
    if form not in _FINDERS:
        return None
    try:
        buffers = _FINDERS[form](raw)
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    if buffers is None or buffers.n_samples != int(raw.n_times):
        return None
    return buffers if buffers.n_channels == len(raw.ch_names) else None


def _of_fif(raw: Any) -> Buffers | None:
    forms = {tag.type for extra in raw._raw_extras for tag in extra["ent"] if tag is not None}
    channels = {int(extra["orig_nchan"]) for extra in raw._raw_extras}
    if len(forms) != 1 or len(channels) != 1 or not forms <= _FIFF_WORDS.keys():
        return None
    n_channels, word = channels.pop(), np.dtype(_FIFF_WORDS[forms.pop()])
    rows = [row for extra in raw._raw_extras for row in _fif_rows(extra)]
    if any(row.step <= 0 for row in rows):
        return None
    cut = [piece for row in rows for piece in _cut(row, n_channels * word.itemsize)]
    return Buffers(tuple(cut), n_channels, word)


def _fif_rows(extra: Any) -> list[BufferRow]:
    """The buffers of one file; a row ends where the length, or the way to the next one, changes."""
    places = np.array([0 if tag is None else tag.pos + HEADER.size for tag in extra["ent"]])
    lengths, steps = np.diff(extra["bounds"]), np.diff(places)
    changes = (lengths[1:] != lengths[:-1]) | (places[1:] == 0) | (places[:-1] == 0)
    changes[1:] |= steps[1:] != steps[:-1]
    firsts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    return [
        BufferRow(
            path=Path(extra["filename"]) if places[first] else None,
            place=int(places[first]),
            step=int(steps[first]) if following - first > 1 else 1,
            n_buffers=following - first,
            buffer_samples=int(lengths[first]),
        )
        for first, following in pairwise([*firsts, len(places)])
    ]


def _cut(row: BufferRow, sample_bytes: int) -> Iterator[BufferRow]:
    """A row whose buffers can be read at once: a FIF may have one for all of its samples."""
    if row.path is None or row.buffer_samples * sample_bytes <= 2 * PIECE_BYTES:
        yield row
        return
    for number in range(row.n_buffers):
        place = row.place + number * row.step
        yield from rows_of_run(row.path, place, row.buffer_samples, sample_bytes)


def _of_brainvision(raw: Any) -> Buffers | None:
    (extra,) = raw._raw_extras
    multiplexed = extra["order"] == "F" and isinstance(extra["fmt"], str)
    return _whole_file(raw, _BRAINVISION_WORDS[extra["fmt"]]) if multiplexed else None


def _of_eeglab(raw: Any) -> Buffers | None:
    (path,) = raw.filenames
    is_apart = Path(path).suffix.lower() == ".fdt"  # else all of it stands in the .set
    return _whole_file(raw, _EEGLAB_WORD) if is_apart else None


def _whole_file(raw: Any, form: str) -> Buffers | None:
    """A file of nothing but samples."""
    (path,), (extra,) = raw.filenames, raw._raw_extras
    n_channels, word = int(extra["orig_nchan"]), np.dtype(form)
    n_samples = Path(path).stat().st_size // (n_channels * word.itemsize)
    rows = rows_of_run(Path(path), 0, n_samples, n_channels * word.itemsize)
    return Buffers(tuple(rows), n_channels, word)


_FINDERS: dict[str, Callable[[Any], Buffers | None]] = {
    "FIF": _of_fif,
    "BrainVision": _of_brainvision,
    "EEGLAB": _of_eeglab,
}
