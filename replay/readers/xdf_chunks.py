"""The chunks of an XDF file, one at a time: a recording of hours needs no more memory than its stamps.

pyxdf reads a file as a whole. This reads what `bci-replay record` counts and salvages, and what
`scripts/bench/soak_lsl.py` compares.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError

MAGIC = b"XDF:"
STREAM_HEADER, SAMPLES, CLOCK_OFFSET, STREAM_FOOTER = 2, 3, 4, 6
"""Tags of chunks that belong to a stream; its number is their first content."""
LENGTHS = {1: "<B", 4: "<I", 8: "<Q"}
FORMATS = {
    "float32": "<f4",
    "double64": "<f8",
    "int8": "<i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
}


@dataclass(frozen=True)
class XdfStreamHeader:
    """What the header of a stream states. dtype: of its values; None for text."""

    number: int
    name: str
    kind: str
    rate: float
    n_channels: int
    dtype: str | None


@dataclass(frozen=True)
class SampleChunk:
    """Samples of one stream. stamps: NaN where the file has none. values: (n, channels), None for text."""

    stream: XdfStreamHeader
    stamps: NDArray[np.float64]
    values: NDArray[Any] | None


def read_chunks(source: BinaryIO, size: int) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, head, content) of each whole chunk after the magic; the head has the length and the tag."""
    while True:
        width = source.read(1)
        form = LENGTHS.get(width[0]) if width else None
        if form is None:
            return
        length_bytes = source.read(width[0])
        if len(length_bytes) < width[0]:
            return
        (length,) = struct.unpack(form, length_bytes)
        if length < 2 or source.tell() + length > size:
            return
        tag_bytes = source.read(2)
        yield (
            struct.unpack("<H", tag_bytes)[0],
            width + length_bytes + tag_bytes,
            source.read(length - 2),
        )


def read_samples(path: Path) -> Iterator[XdfStreamHeader | SampleChunk]:
    """The stream headers and the chunks of samples, in the order of the file. Raises SourceError."""
    streams: dict[int, XdfStreamHeader] = {}
    with path.open("rb") as source:
        if source.read(len(MAGIC)) != MAGIC:
            raise SourceError(f"{path} is no XDF file: it does not begin with {MAGIC.decode()!r}")
        try:
            for tag, _, content in read_chunks(source, path.stat().st_size):
                if tag == STREAM_HEADER:
                    header = _header(content)
                    streams[header.number] = header
                    yield header
                elif tag == SAMPLES:
                    yield _samples(streams[struct.unpack_from("<I", content)[0]], content)
        except (KeyError, ValueError, struct.error, IndexError, ElementTree.ParseError) as error:
            raise SourceError(f"{path}: a chunk of this XDF file is damaged: {error!r}") from error


def _header(content: bytes) -> XdfStreamHeader:
    info = ElementTree.fromstring(content[4:])

    def text(name: str) -> str:
        return (info.findtext(name) or "").strip()

    return XdfStreamHeader(
        struct.unpack_from("<I", content)[0],
        text("name"),
        text("type"),
        float(text("nominal_srate") or 0),
        int(text("channel_count")),
        FORMATS.get(text("channel_format")),
    )


def _samples(stream: XdfStreamHeader, content: bytes) -> SampleChunk:
    width = content[4]
    (n,) = struct.unpack_from(LENGTHS[width], content, 5)
    body = content[5 + width :]
    if stream.dtype is None:
        return SampleChunk(stream, _text_stamps(body, n, stream.n_channels), None)
    value = (stream.dtype, (stream.n_channels,))
    stamped = np.dtype([("flag", "u1"), ("t", "<f8"), ("x", *value)])
    bare = np.dtype([("flag", "u1"), ("x", *value)])
    # Samples come in runs of one form: all with stamps, or only the first one.
    stamps, values = np.full(n, np.nan), np.empty((n, stream.n_channels), stream.dtype)
    done = place = 0
    while done < n:
        kind, flag = (stamped, 8) if body[place] == 8 else (bare, 0)
        rows = np.frombuffer(body, kind, min(n - done, (len(body) - place) // kind.itemsize), place)
        others = np.flatnonzero(rows["flag"] != flag)
        run = int(others[0]) if len(others) else len(rows)
        if not run:
            raise ValueError("a sample is cut off")
        values[done : done + run] = rows["x"][:run]
        if flag:
            stamps[done : done + run] = rows["t"][:run]
        done, place = done + run, place + run * kind.itemsize
    return SampleChunk(stream, stamps, values)


def _text_stamps(body: bytes, n: int, n_channels: int) -> NDArray[np.float64]:
    stamps, place = np.full(n, np.nan), 0
    for sample in range(n):
        flag, place = body[place], place + 1
        if flag == 8:
            stamps[sample] = struct.unpack_from("<d", body, place)[0]
            place += 8
        for _ in range(n_channels):
            width = body[place]
            (length,) = struct.unpack_from(LENGTHS[width], body, place + 1)
            place += 1 + width + length
    if place > len(body):
        raise ValueError("a text is cut off")
    return stamps


def deduced(stamps: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """The stamps of a stream, with those that the file leaves out: one period after the one before."""
    known = ~np.isnan(stamps)
    if known.all() or not known.any():
        return stamps
    places = np.arange(len(stamps))
    last = np.maximum.accumulate(np.where(known, places, 0))
    return np.asarray(stamps[last] + (places - last) * (1 / rate if rate else 0.0))
