"""Neuracle's hEEG format: a small frame each millisecond, with the number of leads and the rate."""

import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.neuracle.frames import Frame, FrameKind, FrameScanner
from replay.devices.params import apply_montage, default_leads
from replay.devices.triggers import EdgeDetector, read_text

HEAD, TAIL = b"\x5a\xa5", b"\xa5\x5a"
HEADER = struct.Struct("<2s6I")
TEXT_BYTES = 30
MOST_LEADS = 1024
MOST_RATE = 100_000


class HeegParser:
    """montage: names of the leads, which the frames don't carry; None: ch1, ch2, ..."""

    counts = False

    def __init__(
        self,
        montage: tuple[Lead, ...] | None = None,
        hold: bool = True,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.info: DeviceInfo | None = None
        self._montage, self._note = montage, note
        self._edges = EdgeDetector(hold)
        self._restarted = False
        self._frame = (0, 1)
        self._scanner = FrameScanner((FrameKind(HEAD, TAIL, HEADER.size, _length),))

    @property
    def resyncs(self) -> int:
        return self._scanner.resyncs

    def restart(self) -> None:
        self._scanner.restart()
        self._restarted = True

    def bytes_for(self, samples: int) -> int:
        return self._scanner.bytes_for(samples, self._frame)

    def reply(self) -> bytes:
        return b""

    def flush(self) -> list[Chunk]:
        return []

    def feed(self, data: bytes) -> list[Chunk]:
        return [self._chunk(run) for run in _runs(self._scanner.feed(data))]

    def _chunk(self, run: list[Frame]) -> Chunk:
        """Frames with the same header, read as one table: a thousand a second are too many one by one."""
        _, _, _, _, leads, rate, n = HEADER.unpack_from(run[0].data)
        self._check(leads, rate)
        self._frame = (len(run[0].data), n)
        table = np.frombuffer(b"".join(frame.data for frame in run), _layout(leads, n))
        samples = np.ascontiguousarray(table["values"].transpose(0, 2, 1), dtype=np.float32)
        lost = None if self._restarted else _lost(run[0], n)
        self._restarted = False
        triggers = tuple((n * i, code) for i, code in self._edges.step(self._codes(table["text"])))
        return Chunk(samples.reshape(-1, leads), triggers, lost)

    def _codes(self, texts: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """A frame's text is the trigger of its first sample."""
        codes = np.zeros(len(texts), dtype=np.int64)
        for i in np.flatnonzero(texts != b""):
            codes[i] = read_text(texts[i], self._note)
        return codes

    def _check(self, leads: int, rate: int) -> None:
        if self.info is None:
            self.info = DeviceInfo(float(rate), apply_montage(self._montage, default_leads(leads)))
        elif (leads, rate) != (len(self.info.leads), self.info.rate):
            raise SourceError(
                f"the amplifier changed from {len(self.info.leads)} leads at {self.info.rate:g} Hz "
                f"to {leads} at {rate} Hz; a stream can't change: start the replay again"
            )


def _runs(frames: list[Frame]) -> list[list[Frame]]:
    """Groups of consecutive frames with the same header."""
    runs: list[list[Frame]] = []
    for frame in frames:
        same = runs and frame.data[: HEADER.size] == runs[-1][0].data[: HEADER.size]
        if same and not frame.skipped:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    return runs


def _lost(frame: Frame, n: int) -> int | None:
    """Number of samples in skipped bytes, if these are whole frames."""
    frames, more = divmod(frame.skipped, len(frame.data))
    return None if more else frames * n


def _layout(leads: int, n: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("header", f"S{HEADER.size}"),
            ("values", "<f4", (leads, n)),
            ("text", f"S{TEXT_BYTES}"),
            ("tail", f"S{len(TAIL)}"),
        ]
    )


def _length(header: bytes) -> int | None:
    _, header_bytes, _, _, leads, rate, n = HEADER.unpack(header)
    if header_bytes != HEADER.size or not 1 <= leads <= MOST_LEADS:
        return None
    if not 1 <= rate <= MOST_RATE or not 1 <= n <= rate:
        return None
    return int(HEADER.size + 4 * leads * n + TEXT_BYTES + len(TAIL))


def encode_frame(samples: FloatArray, rate: int, text: str = "") -> bytes:
    """Samples (n, leads) as one frame; text: the trigger of the first one."""
    n, leads = samples.shape
    header = HEADER.pack(HEAD, HEADER.size, 0, 0, leads, rate, n)
    values = np.ascontiguousarray(samples.T, dtype="<f4").tobytes()
    return header + values + text.encode("ascii").ljust(TEXT_BYTES, b"\0") + TAIL
