"""Frames in a stream of bytes: found by head, length and tail together, lost and found again.

A head can occur inside the numbers of another frame, so a head alone proves nothing: its header
must give a length within bounds, and the tail must stand exactly there. Where it does not, the
search goes on one byte later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

LONGEST_FRAME = 1 << 22


@dataclass(frozen=True, slots=True)
class FrameKind:
    """length: of the whole frame, from its header; None where that can be no header."""

    head: bytes
    tail: bytes
    header_bytes: int
    length: Callable[[bytes], int | None]


class Frame(NamedTuple):
    """head names its kind; skipped: how many bytes that were no frame stood right before it."""

    head: bytes
    data: bytes
    skipped: int


class FrameScanner:
    def __init__(self, kinds: tuple[FrameKind, ...]) -> None:
        self._kinds: Mapping[bytes, FrameKind] = {kind.head: kind for kind in kinds}
        self.resyncs = 0
        self.restart()

    def restart(self) -> None:
        self._buffer = b""
        self._skipped = 0

    def bytes_for(self, samples: int, frame: tuple[int, int]) -> int:
        """How many more bytes bring so many samples, where frames have (bytes, samples)."""
        frame_bytes, frame_samples = frame
        return max(1, -(-samples // frame_samples) * frame_bytes - len(self._buffer))

    def feed(self, data: bytes) -> list[Frame]:
        buffer = self._buffer + data
        frames, position = [], 0
        while (found := self._next(buffer, position)) is not None:
            begin, end, kind = found
            if kind is None:
                self._skip(end - position)
                position = end
                continue
            self._skip(begin - position)
            frames.append(Frame(kind.head, buffer[begin:end], self._skipped))
            self._skipped = 0
            position = _take_alike(frames, buffer, end, kind)
        self._buffer = buffer[position:]
        return frames

    def _skip(self, skipped: int) -> None:
        if skipped and not self._skipped:
            self.resyncs += 1
        self._skipped += skipped

    def _next(self, buffer: bytes, start: int) -> tuple[int, int, FrameKind | None] | None:
        """(begin, end, kind) of a frame; kind None: no frame. None: more bytes are needed."""
        begin, kind = self._find_head(buffer, start)
        if kind is None:
            return (begin, begin, None) if begin > start else None
        header = buffer[begin : begin + kind.header_bytes]
        if len(header) < kind.header_bytes:
            return None
        length = kind.length(header)
        if length is None or not kind.header_bytes + len(kind.tail) <= length <= LONGEST_FRAME:
            return begin, begin + 1, None
        if len(buffer) < begin + length:
            return None
        if buffer[begin + length - len(kind.tail) : begin + length] != kind.tail:
            return begin, begin + 1, None
        return begin, begin + length, kind

    def _find_head(self, buffer: bytes, start: int) -> tuple[int, FrameKind | None]:
        """Where the first head stands; without one, where a head may still begin."""
        for head, kind in self._kinds.items():
            if buffer.startswith(head, start):  # as it nearly always does
                return start, kind
        hits = [(at, head) for head in self._kinds if (at := buffer.find(head, start)) >= 0]
        if hits:
            at, head = min(hits)
            return at, self._kinds[head]
        last = buffer[-1:]
        may_begin = len(buffer) > start and any(head.startswith(last) for head in self._kinds)
        return len(buffer) - may_begin, None


def _take_alike(frames: list[Frame], buffer: bytes, begin: int, kind: FrameKind) -> int:
    """Frames with the header of the last one that follow it at once; returns where they end.

    The same header says the same length, so nothing but the tail is left to look at. A frame a
    millisecond is too many to be searched for singly.
    """
    header, length = frames[-1].data[: kind.header_bytes], len(frames[-1].data)
    end = begin + length
    while buffer.startswith(header, begin) and buffer.startswith(kind.tail, end - len(kind.tail)):
        frames.append(Frame(kind.head, buffer[begin:end], skipped=0))
        begin, end = end, end + length
    return begin
