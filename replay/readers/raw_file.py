"""A raw file: a raw object of MNE, and what is known of the file that it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from replay.readers.buffers import Buffers
from replay.readers.content import Signal
from replay.readers.find_buffers import find_buffers
from replay.readers.own_rates import RecordCounts, at_rate, record_counts, signal_of
from replay.readers.record_times import RecordTimes, read_record_times


@dataclass(frozen=True)
class RawFile:
    """One of them.

    path: where it lies, if it is one file. counts: how many samples each channel has in a record, where
    there are records; times: when these begin, if not each where the one before it ends. buffers: where
    the samples stand, if that is plain.
    """

    raw: Any
    name: str
    path: Path | None = None
    counts: RecordCounts | None = None
    times: RecordTimes | None = None
    buffers: Buffers | None = None

    @classmethod
    def of(cls, raw: Any, name: str, form: str, path: Path | None) -> "RawFile":
        counts = record_counts(raw, name, form)
        if counts and counts.is_mixed:
            raw = at_rate(raw, counts.highest)
        times = None
        if counts and path:
            times = read_record_times(path, counts.highest, float(raw.info["sfreq"]))
        return cls(raw, name, path, counts, times, find_buffers(raw, form))

    @cached_property
    def rate(self) -> float:
        return float(self.raw.info["sfreq"])

    @cached_property
    def n_samples(self) -> int:
        return int(self.raw.n_times)

    def signal(self, channels: Sequence[int], scales: Sequence[float]) -> Signal:
        return signal_of(self.raw, self.name, channels, scales, self.counts)
