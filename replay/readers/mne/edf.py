"""EDF and BDF as MNE opens them, but for two things that for an hour of EEG take longer than all else.

MNE reads every channel from end to end to find the annotations while it opens a file, lazily or not: here
it is handed the bytes it looks for. Then it makes a deep copy of each annotation to crop it to the
recording: here they stay as they were found, and `events_of_raw` leaves out, and tells, what lies outside.

And units are the header's: MNE takes "uv" or "nV" for volts, and forgets any that it does not know.
"""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from mne.io.edf.edf import RawBDF, RawEDF
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.readers.mne.mne_signal import tell_units

HEADER = 256
SAMPLE_BYTES = {".edf": 2, ".bdf": 3}

_FIELDS = {"label": 16, "transducer": 80, "unit": 8, "low": 8, "high": 8}
_FIELDS |= {"digital_low": 8, "digital_high": 8, "filter": 80, "samples": 8, "reserved": 32}


@dataclass(frozen=True)
class EdfHeader:
    """What a file says of itself, and in `fields` of each of its channels."""

    path: Path
    head: bytes
    fields: dict[str, list[str]]

    @property
    def data_start(self) -> int:
        return int(self.head[184:192])

    @property
    def is_discontinuous(self) -> bool:
        return self.head[192:236].strip().endswith(b"+D")

    @property
    def is_unclosed(self) -> bool:
        """Whether the number of its records was never written, as after a crash."""
        return self.head[236:244].strip(b"\0 ") == b"-1"

    @property
    def n_bytes(self) -> int:
        """How long a closed file is by its own account."""
        return self.data_start + int(self.head[236:244]) * sum(self.samples) * self.sample_bytes

    @property
    def sample_bytes(self) -> int:
        return SAMPLE_BYTES[self.path.suffix.lower()]

    @property
    def samples(self) -> list[int]:
        """How many each channel has in a record."""
        return [int(text) for text in self.fields["samples"]]


def read_edf_header(path: Path) -> EdfHeader | None:
    """None for what is no EDF or BDF."""
    if path.suffix.lower() not in SAMPLE_BYTES:
        return None
    with path.open("rb") as file:
        head = file.read(HEADER)
        try:
            count = max(int(head[252:256]), 0)
        except ValueError:
            return None
        fields = {n: _texts(file.read(width * count), width) for n, width in _FIELDS.items()}
    return EdfHeader(path, head, fields)


def _texts(raw: bytes, width: int) -> list[str]:
    text = raw.decode("latin-1")
    return [text[at : at + width].strip("\0 ") for at in range(0, len(text), width)]


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


class _Lazy:
    """What is different from MNE's own, whichever of its classes reads the samples."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        header = read_edf_header(Path(path))
        with _unclosed_is_said(header):
            super().__init__(path, **options)  # type: ignore[call-arg]  # MNE's class stands behind this one
        if header is not None:
            tell_units(self, header.fields["unit"])

    def set_annotations(self, annotations: Any, *rest: Any, **options: Any) -> Any:
        kept = _kept(self, annotations)
        return kept or super().set_annotations(annotations, *rest, **options)  # type: ignore[misc]


# Not in the class above, and the parents by name: MNE calls this method with a stand-in for self.


class LazyEdf(_Lazy, RawEDF):  # type: ignore[misc]  # MNE tells no types
    """An EDF or EDF+ file."""

    def _read_segment_file(self, data: NDArray[Any], idx: Any, fi: int, *rest: Any) -> Any:
        found = _annotations_alone(data, self.filenames[fi])
        return found or RawEDF._read_segment_file(self, data, idx, fi, *rest)


class LazyBdf(_Lazy, RawBDF):  # type: ignore[misc]
    """A BDF or BDF+ file."""

    def _read_segment_file(self, data: NDArray[Any], idx: Any, fi: int, *rest: Any) -> Any:
        found = _annotations_alone(data, self.filenames[fi])
        return found or RawBDF._read_segment_file(self, data, idx, fi, *rest)


@contextmanager
def _unclosed_is_said(header: EdfHeader | None) -> Iterator[None]:
    """A file that was never closed gives no number of records: that is no sign that any is missing."""
    if header is None or not header.is_unclosed:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Number of records from the header")
        yield
    warnings.warn(
        "it was never closed (did its recorder crash?): it is played as far as whole records go",
        stacklevel=2,
    )


def _annotations_alone(data: NDArray[Any], path: Any) -> list[NDArray[Any]] | None:
    """MNE asks for no row of the data where it wants nothing but the annotations."""
    column = find_annotations(path) if data.shape[0] == 0 else None
    if column is None:
        return None
    return [column.integers(column.read(0, column.n_samples)).reshape(1, -1)]


def _kept(raw: Any, annotations: Any) -> Any:
    """The raw object with these annotations where they count from its first sample, else None."""
    if annotations is None or annotations.orig_time is not None or raw.first_samp != 0:
        return None
    annotations._orig_time = raw.info["meas_date"]
    raw._annotations = annotations
    return raw


_TIME_KEEPING = re.compile(rb"([+-]\d+(?:\.\d*)?)\x14\x14")


@dataclass(frozen=True)
class RecordTimes:
    """starts_s: when each record begins, from the first on; record_samples: how long each is."""

    starts_s: NDArray[np.float64]
    record_samples: int
    rate: float

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each record begins on the line with the pauses."""
        return np.rint(self.starts_s * self.rate).astype(np.int64)

    @property
    def n_clock(self) -> int:
        """How long that line is."""
        return int(self.starts[-1]) + self.record_samples

    @cached_property
    def pauses(self) -> tuple[int, ...]:
        """The records that a pause follows; less than two samples are the clock's inaccuracy."""
        return tuple(np.flatnonzero(self.slips >= 2).tolist())

    @property
    def slips(self) -> NDArray[np.float64]:
        """How many samples lie between a record's end and the next one's beginning."""
        slips: NDArray[np.float64] = np.diff(self.starts_s) * self.rate - self.record_samples
        return slips

    @property
    def is_even(self) -> bool:
        """Whether each record begins where the one before it ends."""
        even = np.arange(len(self.starts_s)) * self.record_samples
        return bool((np.abs(self.starts_s * self.rate - even) < 0.5).all())

    @property
    def block_starts(self) -> tuple[int, ...] | None:
        """The first sample, and the first one after each pause; None where there is no pause."""
        after = [(record + 1) * self.record_samples for record in self.pauses]
        return (0, *after) if after else None

    def clock_of_time(self, onset_s: float) -> int:
        """Where a time stands on the line with the pauses: exactly on its sample, if there is one."""
        record = self._record_at(onset_s + 0.5 / self.rate, self.starts_s)
        inside = round((onset_s - float(self.starts_s[record])) * self.rate)
        if 0 <= inside < self.record_samples:
            return int(self.starts[record]) + inside
        return round(onset_s * self.rate)

    def clock_of(self, sample: int) -> int:
        """Where a sample of the file stands on the line with the pauses."""
        record, inside = divmod(sample, self.record_samples)
        return int(self.starts[record]) + inside

    def sample_of(self, clock: int) -> int | None:
        """The file's sample at a place on that line; None in a pause."""
        record = self._record_at(clock, self.starts)
        inside = clock - int(self.starts[record])
        is_between = inside >= self.record_samples and record not in self.pauses
        if is_between and record + 1 < len(self.starts):
            inside = self.record_samples - 1  # the clock's inaccuracy
        is_there = 0 <= inside < self.record_samples
        return record * self.record_samples + inside if is_there else None

    def _record_at(self, place: float, starts: NDArray[np.generic]) -> int:
        return max(int(np.searchsorted(starts, place, side="right")) - 1, 0)


def read_record_times(path: Path, record_samples: int, rate: float) -> RecordTimes | None:
    """None for a file whose records follow each other: every EDF and BDF, EDF+C, and many EDF+D."""
    header = read_edf_header(path)
    if header is None or not header.is_discontinuous:
        return None
    column = find_time_keeping(path)
    found = [_TIME_KEEPING.match(text) for text in (column.texts() if column else [])]
    seconds = np.array([float(time[1]) for time in found if time])
    if not found or len(seconds) < len(found):
        raise SourceError(
            f"{path} is discontinuous (EDF+D), but does not say when each of its records begins: no event "
            "could be put on its sample. Is it whole?"
        )
    times = RecordTimes(seconds - seconds[0], record_samples, rate)
    if (times.slips < -1).any():
        raise SourceError(
            f"{path}: its records (EDF+D) overlap in time; it can't be played in order"
        )
    return None if times.is_even else times
