"""An EDF column: one channel of an EDF or BDF file, read without the others.

MNE reads all channels of a stretch to give one of them. A stim channel is searched from end to end
before a contest begins, and annotations are as a file is opened, so here only their own bytes are
read (`scripts/bench_first_packet.py` measures what that saves).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError

HEADER = 256
_FIELDS = {"label": 16, "transducer": 80, "unit": 8, "low": 8, "high": 8}
_FIELDS |= {"digital_low": 8, "digital_high": 8, "filter": 80, "samples": 8, "reserved": 32}
_RANGES = ("low", "high", "digital_low", "digital_high")
_ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
_SAMPLE_BYTES = {".edf": 2, ".bdf": 3}
STATUS_BITS = 2**17 - 1
"""What of a status word is no flag of the amplifier's own (BioSemi's bits 17 to 23), as MNE has it."""


@dataclass(frozen=True)
class EdfColumn:
    """Where one channel's samples stand in each record, and what makes them physical values.

    is_status: flags of the amplifier stand above the codes, and are taken off.
    """

    path: Path
    data_start: int
    record_bytes: int
    column_start: int
    record_samples: int
    sample_bytes: int
    gain: float
    offset: float
    is_status: bool = False

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The words of the file from sample start to stop: two or three bytes each, unsigned."""
        first, last = start // self.record_samples, (stop - 1) // self.record_samples
        n_bytes = self.record_samples * self.sample_bytes
        found = bytearray((last + 1 - first) * n_bytes + 1)
        pieces = memoryview(found)
        with self.path.open("rb") as file:
            for record in range(first, last + 1):
                at = (record - first) * n_bytes
                piece = pieces[at : at + n_bytes]
                if os.preadv(file.fileno(), [piece], self._place(record)) != n_bytes:
                    raise SourceError(f"{self.path} ends within record {record}")
        skipped = start - first * self.record_samples
        return self._words(found)[skipped : skipped + stop - start]

    def values(self, words: NDArray[Any]) -> NDArray[np.float64]:
        """Physical values of what `read` gave."""
        values: NDArray[np.float64] = self.integers(words) * self.gain + self.offset
        if self.is_status:
            return (np.rint(values).astype(np.int64) & STATUS_BITS).astype(np.float64)
        return values

    def integers(self, words: NDArray[Any]) -> NDArray[Any]:
        """Words with their sign, in the type that MNE reads them in."""
        if self.sample_bytes == 2:
            return words.view("<i2")
        return (words << 8).view("<i4") >> 8

    def _words(self, raw: bytearray) -> NDArray[Any]:
        n_samples = len(raw) // self.sample_bytes
        if self.sample_bytes == 2:
            return np.frombuffer(raw, dtype="<u2", count=n_samples)
        # Each three bytes as the lower ones of four; the last one is followed by a byte to spare.
        return np.ndarray((n_samples,), "<u4", raw, strides=(3,)) & 0xFFFFFF

    @property
    def n_samples(self) -> int:
        """How many the file holds, whatever its header says: as MNE counts them."""
        records = (self.path.stat().st_size - self.data_start) // self.record_bytes
        return records * self.record_samples

    def _place(self, record: int) -> int:
        return self.data_start + record * self.record_bytes + self.column_start


@dataclass(frozen=True)
class _Header:
    """What of a file's header says where its channels stand."""

    path: Path
    data_start: int
    names: list[str]
    samples: list[int]
    ranges: dict[str, list[float]]
    sample_bytes: int
    discontinuous: bool

    def column(self, channel: int, is_status: bool = False) -> EdfColumn | None:
        low, high, bottom, top = (self.ranges[key][channel] for key in _RANGES)
        if top == bottom or self.samples[channel] < 1:
            return None
        gain = (high - low) / (top - bottom)
        return EdfColumn(
            self.path,
            data_start=self.data_start,
            record_bytes=sum(self.samples) * self.sample_bytes,
            column_start=sum(self.samples[:channel]) * self.sample_bytes,
            record_samples=self.samples[channel],
            sample_bytes=self.sample_bytes,
            gain=gain,
            offset=low - bottom * gain,
            is_status=is_status,
        )


def find_edf_column(path: Path, label: str, is_status: bool = False) -> EdfColumn | None:
    """The column of that name; None wherever its place is not plain, and MNE should read it."""
    header = _read_header(path)
    if header is None or header.names.count(label) != 1 or header.discontinuous:
        return None
    pairs = zip(header.samples, header.names, strict=True)
    rates = {count for count, name in pairs if name not in _ANNOTATIONS}
    return header.column(header.names.index(label), is_status) if len(rates) == 1 else None


def find_annotations(path: Path) -> EdfColumn | None:
    """The column that annotations stand in; None where there is none, or more than one."""
    header = _read_header(path)
    names = header.names if header else []
    found = [k for k, name in enumerate(names) if name in _ANNOTATIONS]
    return header.column(found[0]) if header and len(found) == 1 else None


def _read_header(path: Path) -> _Header | None:
    """None for what is no plain EDF or BDF: MNE knows more spellings of a number than we do."""
    sample_bytes = _SAMPLE_BYTES.get(path.suffix.lower())
    if sample_bytes is None:
        return None
    with path.open("rb") as file:
        head = file.read(HEADER)
        try:
            count = int(head[252:256])
            fields = {n: _texts(file.read(width * count), width) for n, width in _FIELDS.items()}
            return _Header(
                path,
                data_start=int(head[184:192]),
                names=fields["label"],
                samples=[int(text) for text in fields["samples"]],
                ranges={key: [float(text) for text in fields[key]] for key in _RANGES},
                sample_bytes=sample_bytes,
                discontinuous=head[192:236].strip().endswith(b"+D"),
            )
        except ValueError:
            return None


def _texts(raw: bytes, width: int) -> list[str]:
    text = raw.decode("latin-1")
    return [text[at : at + width].strip() for at in range(0, len(text), width)]
