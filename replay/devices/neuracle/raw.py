"""Neuracle's raw format: one row a sample, leads as float32, then a trigger word; no header.

The number of leads is not sent, so a wrong one shows only in implausible trigger words and values.
The first rows are therefore held back until enough of them look right.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Triggers
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.triggers import EdgeDetector, is_code
from tracks.common.codes import MAX_CODE

WordKind = Literal["float", "uint"]


class MisalignedError(SourceError):
    """Bytes that can't be rows of the configured width: wrong channel count or byte order.

    right: number of correct rows before the first wrong one.
    """

    def __init__(self, message: str, right: int = 0) -> None:
        super().__init__(message)
        self.right = right


class TriggerWords:
    """Reads trigger words. kind: None until the first word that is not 0 shows it."""

    def __init__(self, kind: WordKind | None = None) -> None:
        self.kind = kind

    def read(self, words: NDArray[np.uint32], first_row: int) -> NDArray[np.int64]:
        """The codes, 0 for none. first_row: number of the first word's row, for the message."""
        codes = np.zeros(len(words), dtype=np.int64)
        set_rows = np.flatnonzero(words & 0x7FFFFFFF)  # -0.0 is no trigger
        if not len(set_rows):
            return codes
        kind = self.kind or _kind(words[set_rows[0]])
        values = words[set_rows] if kind == "uint" else words[set_rows].view(np.float32)
        wrong = ~is_code(values)
        if kind is None or wrong.any():
            row = int(set_rows[np.argmax(wrong)])
            known = self.kind if row == set_rows[0] else kind
            raise MisalignedError(_message(words[row], first_row + row, known), row)
        self.kind = kind
        codes[set_rows] = values.astype(np.int64)
        return codes


def _kind(word: np.uint32) -> WordKind | None:
    if word <= MAX_CODE:
        return "uint"
    return "float" if is_code(np.array([word]).view(np.float32))[0] else None


def _message(word: np.uint32, row: int, kind: WordKind | None) -> str:
    as_float = float(np.array([word]).view(np.float32)[0])
    wanted = (
        f"a {kind} code from 1 to {MAX_CODE}"
        if kind
        else f"a code from 1 to {MAX_CODE}, float or uint"
    )
    return (
        f"the amplifier's bytes are misaligned: the trigger word of sample {row} must be 0 or "
        f"{wanted}, got 0x{int(word):08X} ({as_float:g} as a float); check channels= (the number "
        "of leads that the recorder forwards, without the trigger), protocol= and trigger="
    )


PROOF_ROWS = 40
"""Rows that must look right before the first one is returned: 40 ms at 1 kHz."""

PLAUSIBLE_UV = (1e-9, 1e9)
"""Beyond any amplifier's range. Of values with swapped bytes, about 3 in 4 lie outside it."""


class RawParser:
    counts = False
    resyncs = 0  # there are no frames: rows are aligned from the start of the connection

    def __init__(self, info: DeviceInfo, kind: WordKind | None = None, hold: bool = True) -> None:
        self.info = info
        self._row = np.dtype([("leads", "<f4", (len(info.leads),)), ("word", "<u4")])
        self._words = TriggerWords(kind)
        self._edges = EdgeDetector(hold)
        self._rest = b""
        self._rows_seen = 0
        self._lost: int | None = 0
        self._error: MisalignedError | None = None

    def restart(self) -> None:
        self._rest = b""
        self._rows_seen = 0
        self._lost = None
        self._error = None

    def bytes_for(self, samples: int) -> int:
        proof = PROOF_ROWS if self._rows_seen == 0 else 0
        return max(1, max(samples, proof) * self._row.itemsize - len(self._rest))

    def reply(self) -> bytes:
        return b""

    def flush(self) -> list[Chunk]:
        return []

    def feed(self, data: bytes) -> list[Chunk]:
        if self._error is not None:
            raise self._error
        data = self._rest + data
        n = len(data) // self._row.itemsize
        if not n or (self._rows_seen == 0 and n < PROOF_ROWS):
            self._rest = data
            return []
        rows = np.frombuffer(data, dtype=self._row, count=n)
        self._rest = data[n * self._row.itemsize :]
        codes = self._read(np.ascontiguousarray(rows["word"]))
        if not len(codes):
            return []
        samples = np.ascontiguousarray(rows["leads"][: len(codes)], dtype=np.float32)
        if self._rows_seen == 0:
            _check_plausible(samples[:PROOF_ROWS])
        self._rows_seen += len(codes)
        lost, self._lost = self._lost, 0
        return [Chunk(samples, self._edges.step(codes), lost)]

    def _read(self, words: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The codes of the rows before a wrong word; its error is raised by the next `feed`."""
        try:
            return self._words.read(words, self._rows_seen)
        except MisalignedError as error:
            if self._rows_seen + error.right < PROOF_ROWS:
                raise
            self._error = error
            return self._words.read(words[: error.right], self._rows_seen)


def _check_plausible(samples: FloatArray) -> None:
    sizes = np.abs(samples[np.isfinite(samples) & (samples != 0)])
    absurd = int(((sizes < PLAUSIBLE_UV[0]) | (sizes > PLAUSIBLE_UV[1])).sum())
    if 4 * absurd > len(sizes):
        raise MisalignedError(
            f"the amplifier's bytes make no signal: {absurd} of {len(sizes)} values lie beyond "
            f"{PLAUSIBLE_UV[0]:g} to {PLAUSIBLE_UV[1]:g} uV; the byte order is wrong (we read "
            "little-endian float32), or channels= or protocol= is: check the recorder's settings"
        )


def encode_rows(samples: FloatArray, triggers: Triggers, kind: WordKind = "float") -> bytes:
    """Samples (n, leads) as rows; each row has room for one trigger."""
    n, leads = samples.shape
    rows = np.zeros(n, dtype=[("leads", "<f4", (leads,)), ("word", "<u4")])
    rows["leads"] = samples
    words = rows["word"].view("<f4" if kind == "float" else "<u4")
    for offset, code in triggers:
        words[offset] = code
    return rows.tobytes()
