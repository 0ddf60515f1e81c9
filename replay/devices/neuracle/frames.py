"""Finds frames in a stream of bytes by head, length and tail.

A head can occur inside the data of another frame, so it is not enough: the header must give a length
within bounds, and the tail must be exactly there. Otherwise the search continues one byte later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

LONGEST_FRAME = 1 << 22


@dataclass(frozen=True, slots=True)
class FrameKind:
    """length: of the whole frame, read from its header; None if it is no valid header."""

    head: bytes
    tail: bytes
    header_bytes: int
    length: Callable[[bytes], int | None]


class Frame(NamedTuple):
    """head: identifies its kind. skipped: number of bytes before it that were no frame."""

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
        """Number of further bytes that bring so many samples; frame: (bytes, samples) of each."""
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
            position = _take_following(frames, buffer, end, kind)
        self._buffer = buffer[position:]
        return frames

    def _skip(self, skipped: int) -> None:
        if skipped and not self._skipped:
            self.resyncs += 1
        self._skipped += skipped

    def _next(self, buffer: bytes, start: int) -> tuple[int, int, FrameKind | None] | None:
        """(begin, end, kind) of a frame; kind None: no frame there. None: more bytes are needed."""
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
        """Position of the first head; without one, where an incomplete head may begin."""
        for head, kind in self._kinds.items():
            if buffer.startswith(head, start):  # the usual case
                return start, kind
        hits = [(at, head) for head in self._kinds if (at := buffer.find(head, start)) >= 0]
        if hits:
            at, head = min(hits)
            return at, self._kinds[head]
        last = buffer[-1:]
        may_begin = len(buffer) > start and any(head.startswith(last) for head in self._kinds)
        return len(buffer) - may_begin, None


def _take_following(frames: list[Frame], buffer: bytes, begin: int, kind: FrameKind) -> int:
    """Take directly following frames with the same header as the last one; returns their end.

    The same header means the same length, so only the tail is checked: a thousand frames a second
    are too many to search for one by one.
    """
    header, length = frames[-1].data[: kind.header_bytes], len(frames[-1].data)
    end = begin + length
    while buffer.startswith(header, begin) and buffer.startswith(kind.tail, end - len(kind.tail)):
        frames.append(Frame(kind.head, buffer[begin:end], skipped=0))
        begin, end = end, end + length
    return begin
