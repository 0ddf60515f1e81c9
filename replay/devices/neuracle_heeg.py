"""Neuracle's hEEG format: a small frame a millisecond, which says how many leads and what rate."""

import re
import struct

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.edges import Edges
from replay.devices.frames import Frame, FrameKind, FrameScanner

HEAD, TAIL = b"\x5a\xa5", b"\xa5\x5a"
HEADER = struct.Struct("<2s6I")
TEXT_BYTES = 30
MOST_LEADS = 1024
MOST_RATE = 100_000
_CODE = re.compile(r"(?:^|:)\s*(\d{1,5})\s*$", re.ASCII)


def code_of(text: bytes) -> int | None:
    """The code in a trigger text (`51`, `Trigger-In:51`); 0: empty; None: no number in it."""
    words = text.split(b"\0")[0].decode("ascii", "replace").strip()
    if not words:
        return 0
    match = _CODE.search(words)
    return int(match[1]) if match else None


def unread_trigger(text: bytes) -> str:
    shown = text.rstrip(b"\0").decode("ascii", "replace")
    return (
        f"the trigger text {shown!r} is no number (51, Trigger-In:51) and was passed over: send "
        "numeric codes from the stimulus program"
    )


class HeegParser:
    """leads: the names to give; None names them ch1, ch2, ..., since the frames don't."""

    def __init__(self, leads: tuple[Lead, ...] | None = None, hold: bool = True) -> None:
        self.info: DeviceInfo | None = None
        self._leads = leads
        self._edges = Edges(hold)
        self._notes: list[str] = []
        self._restarted = False
        self._scanner = FrameScanner((FrameKind(HEAD, TAIL, HEADER.size, _length),))

    @property
    def resyncs(self) -> int:
        return self._scanner.resyncs

    def restart(self) -> None:
        self._scanner.restart()
        self._restarted = True

    def reply(self) -> bytes:
        return b""

    def notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def feed(self, data: bytes) -> list[Chunk]:
        return [self._chunk(frame) for frame in self._scanner.feed(data)]

    def _chunk(self, frame: Frame) -> Chunk:
        _, _, _, _, leads, rate, n = HEADER.unpack_from(frame.data)
        self._check(leads, rate)
        values = np.frombuffer(frame.data, "<f4", leads * n, HEADER.size).reshape(leads, n)
        text = frame.data[HEADER.size + 4 * leads * n :][:TEXT_BYTES]
        samples = np.ascontiguousarray(values.T, dtype=np.float32)
        broken, self._restarted = self._restarted or frame.after_skip, False
        return Chunk(samples, self._triggers(text), None if broken else 0)

    def _triggers(self, text: bytes) -> Triggers:
        """A frame's text belongs to its first sample; repeated in the next frames it is held."""
        code = code_of(text)
        if code is None:
            self._notes.append(unread_trigger(text))
        return self._edges.step(np.array([code or 0]))

    def _check(self, leads: int, rate: int) -> None:
        if self.info is None:
            names = self._leads or tuple(Lead(f"ch{i + 1}") for i in range(leads))
            if len(names) != leads:
                raise SourceError(
                    f"the amplifier sends {leads} leads, but montage= names {len(names)}: name "
                    "them all"
                )
            self.info = DeviceInfo(float(rate), names)
        elif (leads, rate) != (len(self.info.leads), self.info.rate):
            raise SourceError(
                f"the amplifier changed from {len(self.info.leads)} leads at {self.info.rate:g} Hz "
                f"to {leads} at {rate} Hz; a stream can't change: start the replay again"
            )


def _length(header: bytes) -> int | None:
    _, header_bytes, _, _, leads, rate, n = HEADER.unpack(header)
    if header_bytes != HEADER.size or not 1 <= leads <= MOST_LEADS:
        return None
    if not 1 <= rate <= MOST_RATE or not 1 <= n <= rate:
        return None
    return int(HEADER.size + 4 * leads * n + TEXT_BYTES + len(TAIL))


def encode_frame(samples: FloatArray, rate: int, text: str = "") -> bytes:
    """Samples (n, leads) as one frame; the trigger belongs to the first of them."""
    n, leads = samples.shape
    header = HEADER.pack(HEAD, HEADER.size, 0, 0, leads, rate, n)
    values = np.ascontiguousarray(samples.T, dtype="<f4").tobytes()
    return header + values + text.encode("ascii").ljust(TEXT_BYTES, b"\0") + TAIL
