"""Record times: when each record of a discontinuous file (EDF+D, BDF+D) begins.

Such a file was paused: its samples stand one after the other, its events by the clock. Both are brought
together on a line of samples in which the pauses are as long as they were: on it an event stands where its
time says, and what follows it by seconds does too.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.readers.edf_column import find_time_keeping
from replay.readers.edf_header import read_edf_header

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
