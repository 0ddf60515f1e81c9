"""A FIF column: one channel of a FIF file, read without making numbers of the others.

FIF stands sample by sample, so every page of a file is touched to find one channel in it; but nothing is
made of the rest, where MNE would turn every channel's values into double precision first.
"""

import mmap
import os
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError

TAG_HEADER = 16

# FIFF data types of samples: (words of that size, what they are).
_TYPES = {4: ("u4", ">f4"), 5: ("u8", ">f8"), 3: ("u4", ">i4"), 2: ("u2", ">i2"), 16: ("u2", ">i2")}


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


@dataclass(frozen=True)
class FifColumn:
    """Rows of buffers one after the other; starts: the sample that each begins with."""

    rows: tuple[Row, ...]
    starts: tuple[int, ...]
    n_channels: int
    channel: int
    form: int
    gain: float

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The words of the channel from sample start to stop, in the file's byte order."""
        first = bisect_right(self.starts, start) - 1
        pieces = [
            self._piece(row, max(start - begin, 0), min(stop - begin, row.n_samples))
            for begin, row in zip(self.starts[first:], self.rows[first:], strict=True)
            if begin < stop
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def values(self, words: NDArray[Any]) -> NDArray[np.float64]:
        return words.view(_TYPES[self.form][1]).astype(np.float64) * self.gain

    def _piece(self, row: Row, start: int, stop: int) -> NDArray[Any]:
        word = np.dtype(_TYPES[self.form][0])
        if row.path is None:
            return np.zeros(stop - start, dtype=word)
        first, last = start // row.buffer_samples, (stop - 1) // row.buffer_samples
        words: NDArray[Any] = np.empty((last + 1 - first, row.buffer_samples), dtype=word)
        self._fill(words, row.path, row, first)
        skipped = start - first * row.buffer_samples
        return words.reshape(-1)[skipped : skipped + stop - start]

    def _fill(self, words: NDArray[Any], path: Path, row: Row, first: int) -> None:
        """The channel's words of each buffer, from number first on.

        Mapped, not read: of a sample's bytes only the channel's own are then touched, which takes two
        thirds of the time where the file is in memory. A stretch at a time, so that little is.
        """
        sample_bytes = self.n_channels * words.itemsize
        place = row.place + first * row.step
        end = place + (len(words) - 1) * row.step + row.buffer_samples * sample_bytes
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < end:
                raise SourceError(f"{path} ends within its samples")
            begin = place - place % mmap.ALLOCATIONGRANULARITY
            with mmap.mmap(
                file.fileno(), end - begin, access=mmap.ACCESS_READ, offset=begin
            ) as seen:
                offset = place - begin + self.channel * words.itemsize
                strides = (row.step, sample_bytes)
                words[:] = np.ndarray(words.shape, words.dtype, seen, offset, strides)


def find_fif_column(raw: Any, channel: int) -> FifColumn | None:
    """The column of a raw object of MNE; None wherever its place is not plain, and MNE should read.

    Where the buffers stand is MNE's own knowledge, which it does not promise to tell: without it
    all goes its slower way.
    """
    try:
        rows = [row for extra in raw._raw_extras for row in _rows(extra)]
        forms = {tag.type for extra in raw._raw_extras for tag in extra["ent"] if tag is not None}
        n_channels = {int(extra["orig_nchan"]) for extra in raw._raw_extras}
    except (AttributeError, KeyError, TypeError):
        return None
    forwards = all(row.step > 0 for row in rows)
    plain = forwards and len(forms) == len(n_channels) == 1 and forms <= _TYPES.keys()
    n_samples = sum(row.n_samples for row in rows)
    if not plain or n_samples != int(raw.n_times) or n_channels != {len(raw.ch_names)}:
        return None
    info = raw.info["chs"][channel]
    return FifColumn(
        tuple(rows),
        tuple(accumulate((row.n_samples for row in rows[:-1]), initial=0)),
        n_channels.pop(),
        channel,
        forms.pop(),
        float(info["cal"]) * float(info["range"]),
    )


def _rows(extra: Any) -> list[Row]:
    """The buffers of one file; a row ends where the length, or the way to the next one, changes."""
    places = np.array([0 if tag is None else tag.pos + TAG_HEADER for tag in extra["ent"]])
    lengths, steps = np.diff(extra["bounds"]), np.diff(places)
    changes = (lengths[1:] != lengths[:-1]) | (places[1:] == 0) | (places[:-1] == 0)
    changes[1:] |= steps[1:] != steps[:-1]
    firsts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    return [
        Row(
            path=Path(extra["filename"]) if places[first] else None,
            place=int(places[first]),
            step=int(steps[first]) if following - first > 1 else 1,
            n_buffers=following - first,
            buffer_samples=int(lengths[first]),
        )
        for first, following in pairwise([*firsts, len(places)])
    ]
