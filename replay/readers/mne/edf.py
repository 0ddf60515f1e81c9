"""EDF and BDF files, opened by MNE with three differences.

- MNE reads every channel of the whole file to find the annotations, and then copies each one to crop it to
  the recording. Here it gets the bytes of the annotation channel, and events outside the recording are left
  out by `raw_events`: for 1.5 h of EEG the first packet takes a quarter of the time.
- Units are those of the header: MNE knows four spellings of microvolts and takes all other units as volts.
- A trigger channel is read without the other channels: a tenth of the time for a BDF.
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

import mne
import numpy as np
from mne.io.edf.edf import RawBDF, RawEDF
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.guard import reading
from replay.readers.mne.content import content_of_file
from replay.readers.mne.raw_events import status_codes
from replay.readers.mne.raw_file import ChannelHeader, RawFile, group_by_rate
from replay.readers.mne.record_times import RecordTimes

HEADER_BYTES = 256
SAMPLE_BYTES = {".edf": 2, ".bdf": 3}
_FIELDS = {"label": 16, "transducer": 80, "unit": 8, "low": 8, "high": 8}
_FIELDS |= {"digital_low": 8, "digital_high": 8, "filter": 80, "samples": 8, "reserved": 32}
_RANGES = ("low", "high", "digital_low", "digital_high")
_ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
_MNE_MICROVOLTS = ("\u03bcV", "\u00b5V", "\x83\xcaV", "uV")
_TIME_KEEPING = re.compile(rb"([+-]\d+(?:\.\d*)?)\x14\x14")


@dataclass(frozen=True)
class EdfHeader:
    """The header of a file. fields: for each field of a channel, its text for each channel."""

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
        """Whether the number of records was never written, as after a crash."""
        return self.head[236:244].strip(b"\0 ") == b"-1"

    @property
    def n_bytes(self) -> int:
        """Size of a closed file according to its header."""
        return self.data_start + int(self.head[236:244]) * sum(self.samples) * self.sample_bytes

    @property
    def sample_bytes(self) -> int:
        return SAMPLE_BYTES[self.path.suffix.lower()]

    @cached_property
    def samples(self) -> list[int]:
        """Samples of each channel in a record."""
        return [int(text) for text in self.fields["samples"]]

    @property
    def channels(self) -> ChannelHeader:
        """What is stated about the channels that MNE reads as signals."""
        labels = self.fields["label"]
        read = [k for k, label in enumerate(labels) if label not in _ANNOTATIONS]
        units = [self.fields["unit"][k] for k in read]
        factors = [1e-6 if u in _MNE_MICROVOLTS else 1e-3 if u == "mV" else 1.0 for u in units]
        return ChannelHeader(tuple(units), tuple(factors), tuple(self.samples[k] for k in read))

    def column(self, label: str, is_status: bool = False) -> "EdfColumn | None":
        """The channel of that name; None if MNE should read it: mixed rates, unusual numbers."""
        names = self.fields["label"]
        pairs = zip(self.fields["samples"], names, strict=True)
        rates = {count for count, name in pairs if name not in _ANNOTATIONS}
        if names.count(label) != 1 or len(rates) != 1:
            return None
        return self._column(names.index(label), is_status)

    def annotation_columns(self) -> "list[EdfColumn | None]":
        labels = self.fields["label"]
        return [self._column(k) for k, label in enumerate(labels) if label in _ANNOTATIONS]

    def _column(self, channel: int, is_status: bool = False) -> "EdfColumn | None":
        try:
            samples, data_start = self.samples, self.data_start
            ranges = {key: [float(text) for text in self.fields[key]] for key in _RANGES}
        except ValueError:  # MNE accepts more spellings of a number
            return None
        low, high, bottom, top = (ranges[key][channel] for key in _RANGES)
        if top == bottom or samples[channel] < 1:
            return None
        gain = (high - low) / (top - bottom)
        return EdfColumn(
            self.path,
            data_start=data_start,
            record_bytes=sum(samples) * self.sample_bytes,
            column_start=sum(samples[:channel]) * self.sample_bytes,
            record_samples=samples[channel],
            sample_bytes=self.sample_bytes,
            gain=gain,
            offset=low - bottom * gain,
            is_status=is_status,
        )

    def record_times(self, record_samples: int, rate: float) -> RecordTimes | None:
        """When each record begins; None if each one begins where the one before it ends."""
        if not self.is_discontinuous:
            return None
        column = next(iter(self.annotation_columns()), None)
        found = [_TIME_KEEPING.match(text) for text in (column.texts() if column else [])]
        seconds = np.array([float(time[1]) for time in found if time])
        if not found or len(seconds) < len(found):
            raise SourceError(
                f"{self.path} is discontinuous (EDF+D), but does not state when each record begins, so its "
                "events have no place in it. Is it complete?"
            )
        times = RecordTimes(seconds - seconds[0], record_samples, rate)
        if (times.slips < -1).any():
            raise SourceError(f"{self.path}: its records (EDF+D) overlap in time")
        return None if times.is_even else times


def read_edf_header(path: Path) -> EdfHeader | None:
    """The header of an EDF or BDF file; None if it has no number of channels."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        try:
            count = max(int(head[252:256]), 0)
        except ValueError:
            return None
        fields = {n: _texts(file.read(width * count), width) for n, width in _FIELDS.items()}
    return EdfHeader(path, head, fields)


def _texts(raw: bytes, width: int) -> list[str]:
    text = raw.decode("latin-1")
    return [text[at : at + width].strip("\0 ") for at in range(0, len(text), width)]


@dataclass(frozen=True)
class EdfColumn:
    """One channel of a file, read without the others; implements `replay.model.events.StimColumn`.

    gain, offset: from stored numbers to physical values. is_status: the amplifier's own flags above the
    trigger codes are removed.
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

    @property
    def n_records(self) -> int:
        """Number of complete records by the size of the file, as MNE counts them."""
        return (self.path.stat().st_size - self.data_start) // self.record_bytes

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The stored numbers of samples start to stop, unsigned."""
        first, last = start // self.record_samples, (stop - 1) // self.record_samples
        skipped = start - first * self.record_samples
        return self._words(self._bytes(first, last + 1))[skipped : skipped + stop - start]

    def values(self, words: NDArray[Any]) -> NDArray[np.float64]:
        """Physical values of stored numbers."""
        values: NDArray[np.float64] = self.integers(words) * self.gain + self.offset
        if self.is_status:
            return status_codes(values)
        return values

    def integers(self, words: NDArray[Any]) -> NDArray[Any]:
        """Stored numbers with their sign, in the type in which MNE reads them."""
        if self.sample_bytes == 2:
            return words.view("<i2")
        return (words << 8).view("<i4") >> 8

    def all_integers(self) -> NDArray[Any]:
        return self.integers(self.read(0, self.n_records * self.record_samples))

    def texts(self) -> list[bytes]:
        """The bytes of the channel in each record."""
        n_bytes = self.record_samples * self.sample_bytes
        found = bytes(self._bytes(0, self.n_records))
        return [found[at * n_bytes : (at + 1) * n_bytes] for at in range(self.n_records)]

    def _bytes(self, first: int, stop: int) -> bytearray:
        """The channel's bytes in records first to stop, and one byte of padding."""
        n_bytes = self.record_samples * self.sample_bytes
        found = bytearray((stop - first) * n_bytes + 1)
        pieces = memoryview(found)
        with self.path.open("rb") as file:
            for record in range(first, stop):
                at = (record - first) * n_bytes
                place = self.data_start + record * self.record_bytes + self.column_start
                if os.preadv(file.fileno(), [pieces[at : at + n_bytes]], place) != n_bytes:
                    raise SourceError(f"{self.path} ends within record {record}")
        return found

    def _words(self, raw: bytearray) -> NDArray[Any]:
        n_samples = len(raw) // self.sample_bytes
        if self.sample_bytes == 2:
            return np.frombuffer(raw, dtype="<u2", count=n_samples)
        # Each three bytes as the lower ones of four; the padding follows the last sample.
        return np.ndarray((n_samples,), "<u4", raw, strides=(3,)) & 0xFFFFFF


class _AnnotationsAlone:
    """Reads the annotations of a file without its signals; mixed into MNE's classes.

    found: all annotations of the file. crop: MNE keeps a copy of those within the recording, which takes long
    and loses those of a file with pauses.
    """

    def __init__(self, header: EdfHeader, crop: bool, **options: Any) -> None:
        self._edf_header, self._crops, self.found = header, crop, None
        super().__init__(header.path, **options)  # type: ignore[call-arg]  # MNE's class

    def set_annotations(self, annotations: Any, *rest: Any, **options: Any) -> Any:
        self.found = annotations
        if annotations is None or self._crops:
            return super().set_annotations(annotations, *rest, **options)  # type: ignore[misc]
        return self

    def _annotation_channel(self) -> list[NDArray[Any]] | None:
        """The annotation channel as MNE expects it; None to let MNE read it."""
        columns = self._edf_header.annotation_columns()
        if len(columns) != 1 or columns[0] is None:
            return None
        return [columns[0].all_integers().reshape(1, -1)]


# MNE asks for no row of data when it wants the annotations. When it reads signals it calls this method with
# another object in the place of self, so the parents are named instead of super().


class AnnotatedEdf(_AnnotationsAlone, RawEDF):  # type: ignore[misc]  # MNE has no types
    """An EDF file."""

    def _read_segment_file(self, data: NDArray[Any], *rest: Any) -> Any:
        found = self._annotation_channel() if data.shape[0] == 0 else None
        return found or RawEDF._read_segment_file(self, data, *rest)


class AnnotatedBdf(_AnnotationsAlone, RawBDF):  # type: ignore[misc]
    """A BDF file."""

    def _read_segment_file(self, data: NDArray[Any], *rest: Any) -> Any:
        found = self._annotation_channel() if data.shape[0] == 0 else None
        return found or RawBDF._read_segment_file(self, data, *rest)


def open_edf(header: EdfHeader, include: list[str] | None = None, *, crop: bool = False) -> Any:
    """A raw object of MNE. include: these channels only. crop: with MNE's own copy of the annotations."""
    opener = AnnotatedBdf if header.sample_bytes == 3 else AnnotatedEdf
    options = {"include": include, "exclude_after_unique": True} if include else {}
    with _unclosed_is_noted(header):
        return opener(header, crop, verbose="warning", **options)


@contextmanager
def _unclosed_is_noted(header: EdfHeader) -> Iterator[None]:
    """MNE's warning about a wrong number of records does not apply where no number was written."""
    if not header.is_unclosed:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Number of records from the header")
        yield
    warnings.warn(
        "it was never closed (did its recorder crash?): it is played up to its last complete record",
        stacklevel=2,
    )


def read_edf(path: Path, options: SourceOptions) -> Content:
    """Open an EDF or BDF file; only its header and annotations are read."""
    form = path.suffix.lower()[1:].upper()
    with reading(str(path), form) as notes, mne.use_log_level("warning"):
        header = read_edf_header(path)
        if header is None:
            raise SourceError(f"{path} has a damaged header: the number of channels is missing")
        if header.fields["label"] and not header.channels.units:
            raise SourceError(f"{path} holds annotations only, and no signal that could be played")
        file = raw_edf(header)
    return content_of_file(path, file, form, options, notes)


def raw_edf(header: EdfHeader) -> RawFile:
    """The file with its channels in groups of equal rate."""
    raw, channels = open_edf(header), header.channels
    name = header.path.name
    groups = group_by_rate(raw, name, channels.counts, lambda names, _: open_edf(header, names))
    times = header.record_times(groups[-1].count, float(groups[-1].raw.info["sfreq"]))
    return RawFile(raw, name, tuple(groups), channels, raw.found, times, header.column)
