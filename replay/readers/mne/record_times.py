"""When each record of a discontinuous file (EDF+D, BDF+D) begins.

Times are counted on the clock: samples of the file with the pauses between its records filled in.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RecordTimes:
    """starts_s: start of each record in seconds after the first. record_samples: length of each."""

    starts_s: NDArray[np.float64]
    record_samples: int
    rate: float

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Start of each record on the clock, in samples."""
        return np.rint(self.starts_s * self.rate).astype(np.int64)

    @property
    def n_clock(self) -> int:
        """Duration on the clock, in samples."""
        return int(self.starts[-1]) + self.record_samples

    @cached_property
    def pauses(self) -> tuple[int, ...]:
        """Records followed by a pause; less than two samples is inaccuracy of the clock."""
        return tuple(np.flatnonzero(self.slips >= 2).tolist())

    @property
    def slips(self) -> NDArray[np.float64]:
        """Samples between the end of each record and the start of the next."""
        slips: NDArray[np.float64] = np.diff(self.starts_s) * self.rate - self.record_samples
        return slips

    @property
    def is_even(self) -> bool:
        """Whether each record begins where the one before it ends."""
        even = np.arange(len(self.starts_s)) * self.record_samples
        return bool((np.abs(self.starts_s * self.rate - even) < 0.5).all())

    @property
    def block_starts(self) -> tuple[int, ...] | None:
        """The first sample, and the first sample after each pause; None without a pause."""
        after = [(record + 1) * self.record_samples for record in self.pauses]
        return (0, *after) if after else None

    def clock_of_time(self, onset_s: float) -> int:
        """The place of a time on the clock; exactly on a sample of the file, if there is one."""
        record = self._record_at(onset_s + 0.5 / self.rate, self.starts_s)
        inside = round((onset_s - float(self.starts_s[record])) * self.rate)
        if 0 <= inside < self.record_samples:
            return int(self.starts[record]) + inside
        return round(onset_s * self.rate)

    def clock_of(self, sample: int) -> int:
        """The place of a sample of the file on the clock."""
        record, inside = divmod(sample, self.record_samples)
        return int(self.starts[record]) + inside

    def sample_of(self, clock: int) -> int | None:
        """The sample of the file at a place on the clock; None in a pause."""
        record = self._record_at(clock, self.starts)
        inside = clock - int(self.starts[record])
        is_between = inside >= self.record_samples and record not in self.pauses
        if is_between and record + 1 < len(self.starts):
            inside = self.record_samples - 1  # inaccuracy of the clock
        is_there = 0 <= inside < self.record_samples
        return record * self.record_samples + inside if is_there else None

    def _record_at(self, place: float, starts: NDArray[np.generic]) -> int:
        return max(int(np.searchsorted(starts, place, side="right")) - 1, 0)
