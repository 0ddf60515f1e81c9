"""FIF files, opened by MNE with two differences.

- MNE follows the tags of a file without a directory in circles: a tag that leads back is refused.
- A stim channel is read without converting the other channels. The track's labels must be known before the
  first packet, and MNE converts every channel of the file to return one of them.
"""

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.guard import reading
from replay.readers.mne.content import content_of_file
from replay.readers.mne.raw_events import without_flags
from replay.readers.mne.raw_file import RawFile

_TAG = struct.Struct(">iIii")  # kind, type, size, position of the next tag (0: behind this one)
_DIRECTORY_AT = 52
_DATA_BUFFER, _DATA_SKIP = 300, 301
_NUMBERS = {2: ">i2", 3: ">i4", 4: ">f4", 5: ">f8", 16: ">i2"}
"""Types of a data buffer; complex numbers are left to MNE."""


FifTag = tuple[int, int, int, int]
"""(kind, type, size of its data in bytes, place of its data in the file)"""


def read_fif(path: Path, options: SourceOptions) -> Content:
    """Open a FIF file, and those that continue it; no sample is read."""
    tags = read_tags(path)
    with reading(str(path), "FIF") as notes, mne.use_log_level("warning"):
        raw = mne.io.read_raw_fif(str(path), preload=False)

    def column(channel: str, is_stim: bool) -> FifColumn | None:
        return stim_column(raw, channel, tags) if is_stim else None

    file = replace(RawFile.of(raw, path.name), stim_column=column)
    return content_of_file(path, file, "FIF", options, notes)


def read_tags(path: Path) -> list[FifTag]:
    """The tags of a file, by its directory or in their sequence; refuses one that leads back."""
    with path.open("rb") as file:
        number = file.fileno()
        return _directory(number) or list(_sequence(path, number))


def _directory(number: int) -> list[FifTag]:
    """number: of an open file. Empty if it has no directory."""
    size = os.fstat(number).st_size
    place = int.from_bytes(os.pread(number, 4, _DIRECTORY_AT), "big", signed=True)
    if not 0 < place <= size - _TAG.size:
        return []
    _, _, length, _ = _TAG.unpack(os.pread(number, _TAG.size, place))
    entries = os.pread(number, min(max(length, 0), size), place + _TAG.size)
    whole = len(entries) - len(entries) % _TAG.size
    return [
        (kind, type_, size, at + _TAG.size)
        for kind, type_, size, at in _TAG.iter_unpack(entries[:whole])
    ]


def _sequence(path: Path, number: int) -> Iterator[FifTag]:
    place = 0
    while len(head := os.pread(number, _TAG.size, place)) == _TAG.size:
        kind, type_, size, following = _TAG.unpack(head)
        yield kind, type_, size, place + _TAG.size
        following = following or place + _TAG.size + size
        if following < 0:
            return
        if following <= place:
            raise SourceError(
                f"{path} is damaged: its tag at byte {place} leads back to {following}"
            )
        place = following


class _Buffer(NamedTuple):
    """Samples in sequence, all channels of each one after the other."""

    file: int
    place: int
    n_bytes: int
    dtype: str


@dataclass(frozen=True)
class FifColumn:
    """One stim channel, read without the others; implements `replay.model.events.StimColumn`.

    starts: number of the first sample of each buffer, and of the sample behind the last one.
    factor: from stored numbers to values.
    """

    paths: tuple[Path, ...]
    buffers: tuple[_Buffer, ...]
    starts: tuple[int, ...]
    channel: int
    n_channels: int
    factor: float

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """The stored numbers of samples start to stop."""
        words = np.empty(stop - start)
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, stop)
        wanted = self.buffers[first:last]
        room = memoryview(bytearray(max(buffer.n_bytes for buffer in wanted)))
        with ExitStack() as opened:
            numbers = {
                file: opened.enter_context(self.paths[file].open("rb")).fileno()
                for file in {buffer.file for buffer in wanted}
            }
            for buffer, begin in zip(wanted, self.starts[first:last], strict=True):
                samples = self._samples(numbers[buffer.file], buffer, room[: buffer.n_bytes])
                low, high = max(start - begin, 0), min(stop - begin, len(samples))
                words[begin + low - start : begin + high - start] = samples[low:high]
        return words

    def values(self, words: NDArray[Any]) -> NDArray[Any]:
        # Overflow gives infinity, which is no code.
        with np.errstate(over="ignore", invalid="ignore"):
            return without_flags(words * self.factor)

    def _samples(self, number: int, buffer: _Buffer, room: memoryview) -> NDArray[Any]:
        """The channel in a buffer, as a view of the room that its bytes are read into."""
        if os.preadv(number, [room], buffer.place) != buffer.n_bytes:
            raise SourceError(
                f"{self.paths[buffer.file]} ends within its samples. Did the file change, or become shorter, "
                "since it was opened?"
            )
        return np.frombuffer(room, buffer.dtype)[self.channel :: self.n_channels]


def stim_column(raw: Any, name: str, first_tags: list[FifTag] | None = None) -> FifColumn | None:
    """The channel of that name; None if MNE should read it: samples left out, or complex numbers.

    first_tags: of the first file, if they have been read.
    """
    paths = tuple(Path(path) for path in raw.filenames)
    channel, n_channels = raw.ch_names.index(name), len(raw.ch_names)
    frames = {type_: n_channels * np.dtype(form).itemsize for type_, form in _NUMBERS.items()}
    buffers, starts = [], [0]
    for file, path in enumerate(paths):
        for kind, type_, size, place in (not file and first_tags) or read_tags(path):
            if kind == _DATA_BUFFER:
                if type_ not in frames or size < 1 or size % frames[type_]:
                    return None
                buffers.append(_Buffer(file, place, size, _NUMBERS[type_]))
                starts.append(starts[-1] + size // frames[type_])
            elif kind == _DATA_SKIP:
                return None
    if starts[-1] != raw.n_times:
        return None
    info = raw.info["chs"][channel]
    factor = float(info["cal"]) * float(info["range"])
    return FifColumn(paths, tuple(buffers), tuple(starts), channel, n_channels, factor)
