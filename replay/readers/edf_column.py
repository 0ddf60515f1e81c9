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
from replay.readers.edf_header import EdfHeader, read_edf_header

_RANGES = ("low", "high", "digital_low", "digital_high")
_ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
STATUS_BITS = 2**16 - 1
"""What of a status word is no flag of the amplifier's own (BioSemi's bits 16 to 23)."""

STATUS_WORDS = 2**24 - 1
"""The greatest status word."""


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
        skipped = start - first * self.record_samples
        return self._words(self._bytes(first, last + 1))[skipped : skipped + stop - start]

    def texts(self) -> list[bytes]:
        """What stands in each record, as the bytes that it is."""
        n_bytes = self.record_samples * self.sample_bytes
        found = bytes(self._bytes(0, self.n_records))
        return [found[at * n_bytes : (at + 1) * n_bytes] for at in range(self.n_records)]

    def _bytes(self, first: int, stop: int) -> bytearray:
        """The column's own bytes of some records, and one more."""
        n_bytes = self.record_samples * self.sample_bytes
        found = bytearray((stop - first) * n_bytes + 1)
        pieces = memoryview(found)
        with self.path.open("rb") as file:
            for record in range(first, stop):
                at = (record - first) * n_bytes
                piece = pieces[at : at + n_bytes]
                if os.preadv(file.fileno(), [piece], self._place(record)) != n_bytes:
                    raise SourceError(f"{self.path} ends within record {record}")
        return found

    def values(self, words: NDArray[Any]) -> NDArray[np.float64]:
        """Physical values of what `read` gave."""
        values: NDArray[np.float64] = self.integers(words) * self.gain + self.offset
        if self.is_status:
            return status_codes(values)
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
        return self.n_records * self.record_samples

    @property
    def n_records(self) -> int:
        """How many the file holds, whatever its header says: as MNE counts them."""
        return (self.path.stat().st_size - self.data_start) // self.record_bytes

    def _place(self, record: int) -> int:
        return self.data_start + record * self.record_bytes + self.column_start


def status_codes(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """What the codes are without the flags above them: of a new epoch, of the battery, of the electrodes."""
    codes: NDArray[np.int64] = np.rint(values).astype(np.int64) & STATUS_BITS
    return codes.astype(np.float64)


def find_edf_column(path: Path, label: str, is_status: bool = False) -> EdfColumn | None:
    """The column of that name; None wherever its place is not plain, and MNE should read it."""
    header = read_edf_header(path)
    names = header.fields["label"] if header else []
    if header is None or names.count(label) != 1:
        return None
    pairs = zip(header.fields["samples"], names, strict=True)
    rates = {count for count, name in pairs if name not in _ANNOTATIONS}
    return _column(header, names.index(label), is_status) if len(rates) == 1 else None


def find_annotations(path: Path) -> EdfColumn | None:
    """The column that annotations stand in; None where there is none, or more than one."""
    columns = _annotation_columns(path)
    return columns[0] if len(columns) == 1 else None


def find_time_keeping(path: Path) -> EdfColumn | None:
    """The column that says when each record begins: the first one of annotations."""
    return next(iter(_annotation_columns(path)), None)


def _annotation_columns(path: Path) -> list[EdfColumn | None]:
    header = read_edf_header(path)
    names = header.fields["label"] if header else []
    return [_column(header, k) for k, name in enumerate(names) if header and name in _ANNOTATIONS]


def _column(header: EdfHeader, channel: int, is_status: bool = False) -> EdfColumn | None:
    """None where a number is not plain: MNE knows more spellings of one than we do."""
    try:
        samples, data_start = header.samples, header.data_start
        ranges = {key: [float(text) for text in header.fields[key]] for key in _RANGES}
    except ValueError:
        return None
    low, high, bottom, top = (ranges[key][channel] for key in _RANGES)
    if top == bottom or samples[channel] < 1:
        return None
    gain = (high - low) / (top - bottom)
    return EdfColumn(
        header.path,
        data_start=data_start,
        record_bytes=sum(samples) * header.sample_bytes,
        column_start=sum(samples[:channel]) * header.sample_bytes,
        record_samples=samples[channel],
        sample_bytes=header.sample_bytes,
        gain=gain,
        offset=low - bottom * gain,
        is_status=is_status,
    )
