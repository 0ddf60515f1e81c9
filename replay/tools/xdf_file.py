"""XDF files as a whole: what each stream holds and lacks, and a complete copy of a file that is cut off."""

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.model.stamps import missing_samples
from replay.readers.xdf_chunks import (
    LENGTHS,
    MAGIC,
    SAMPLES,
    STREAM_FOOTER,
    STREAM_HEADER,
    SampleChunk,
    XdfStreamHeader,
    deduced,
    read_chunks,
    read_samples,
)


@dataclass(frozen=True)
class StreamCount:
    """A recorded stream. lost: samples that its stamps show as missing; None if it has no regular rate."""

    name: str
    kind: str
    samples: int
    lost: int | None
    gaps: int = 0

    def __str__(self) -> str:
        text = f"{self.name} ({self.kind}): {self.samples} samples"
        if not self.lost:
            return text + (", none lost" if self.lost == 0 else "")
        return f"{text}, {self.lost} lost in {self.gaps} gap{'s' if self.gaps > 1 else ''}"


def count_streams(path: Path) -> list[StreamCount]:
    """The samples of each stream, and those that its stamps show as missing. Raises SourceError."""
    return [_count(stream, stamps) for stream, stamps in read_stamps(path)]


def read_stamps(path: Path) -> list[tuple[XdfStreamHeader, NDArray[np.float64]]]:
    """The stamps of each stream, as its sender gave them. Raises SourceError."""
    stamps: dict[XdfStreamHeader, list[NDArray[np.float64]]] = {}
    for part in read_samples(path):
        if isinstance(part, SampleChunk):
            stamps[part.stream].append(part.stamps)
        else:
            stamps[part] = []
    return [
        (stream, deduced(np.concatenate([np.zeros(0), *found]), stream.rate))
        for stream, found in stamps.items()
    ]


def _count(stream: XdfStreamHeader, stamps: NDArray[np.float64]) -> StreamCount:
    if not stream.rate:
        return StreamCount(stream.name, stream.kind, len(stamps), None)
    missing = missing_samples(stamps, stream.rate)
    lost, gaps = int(missing.sum()), int((missing > 0).sum())
    return StreamCount(stream.name, stream.kind, len(stamps), lost, gaps)


@dataclass
class _Stream:
    """What is known of a stream while its file is copied."""

    name: str = ""
    samples: int = 0
    stamps: list[float] = field(default_factory=list)
    closed: bool = False


@dataclass(frozen=True)
class Salvaged:
    """names: of the streams that were closed. dropped: bytes at the end that are no whole chunk."""

    names: tuple[str, ...]
    samples: int
    dropped: int


def salvage_xdf(cut: Path, out: Path) -> Salvaged:
    """Copy all whole chunks of a file that is cut off, and close each stream. Raises SourceError."""
    streams: dict[int, _Stream] = {}
    size = cut.stat().st_size
    with cut.open("rb") as source:
        if source.read(len(MAGIC)) != MAGIC:
            raise SourceError(f"{cut} is no XDF file: it does not begin with {MAGIC.decode()!r}")
        with out.open("wb") as target:
            target.write(MAGIC)
            end = len(MAGIC)
            for tag, head, content in read_chunks(source, size):
                target.write(head + content)
                end += len(head) + len(content)
                _note(streams, tag, content)
            open_streams = {n: s for n, s in streams.items() if not s.closed}
            for number, stream in open_streams.items():
                target.write(_footer(number, stream))
            target.flush()
            os.fsync(target.fileno())
    if not streams:
        out.unlink()
        raise SourceError(f"{cut} is cut off before its first stream: nothing can be saved")
    names = tuple(stream.name for stream in open_streams.values())
    return Salvaged(names, sum(stream.samples for stream in streams.values()), size - end)


def _note(streams: dict[int, _Stream], tag: int, content: bytes) -> None:
    if tag not in (STREAM_HEADER, SAMPLES, STREAM_FOOTER) or len(content) < 4:
        return
    stream = streams.setdefault(struct.unpack_from("<I", content)[0], _Stream())
    if tag == STREAM_HEADER:
        text = content[4:].decode("utf-8", "replace")
        stream.name = text.partition("<name>")[2].partition("</name>")[0]
    elif tag == STREAM_FOOTER:
        stream.closed = True
    elif len(content) > 5 and content[4] in LENGTHS:
        width = content[4]
        (n,) = struct.unpack_from(LENGTHS[width], content, 5)
        stream.samples += n
        first = 5 + width
        if n and len(content) > first + 8 and content[first] == 8:
            stream.stamps.append(struct.unpack_from("<d", content, first + 1)[0])


def _footer(number: int, stream: _Stream) -> bytes:
    """first_timestamp and last_timestamp are those of the first and the last chunk of samples."""
    first, last = (stream.stamps[0], stream.stamps[-1]) if stream.stamps else (0.0, 0.0)
    text = (
        f"<?xml version='1.0'?><info><first_timestamp>{first}</first_timestamp><last_timestamp>{last}"
        f"</last_timestamp><sample_count>{stream.samples}</sample_count><desc><note>"
        f"{escape('closed by bci-replay: the file was cut off')}</note></desc></info>"
    )
    content = struct.pack("<HI", STREAM_FOOTER, number) + text.encode()
    return b"\x04" + struct.pack("<I", len(content)) + content
