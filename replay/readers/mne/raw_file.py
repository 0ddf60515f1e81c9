"""A raw file: a raw object of MNE, and what is known of the file that it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.model.signal import Signal
from replay.readers.mne.buffers import Buffers, find_buffers
from replay.readers.mne.edf import RecordTimes, read_record_times
from replay.readers.mne.mixed_rates import RecordCounts, at_rate, record_counts, signal_of


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


FIFF_COORD_HEAD = 4
HEAD_RADIUS_M = 0.095

LeadPlace = tuple[float, float, float]

# (up to which largest coordinate of the middle one of its leads, what makes metres of it, what is said)
_UNITS = (
    (0.5, 1.0, None),
    (2.0, HEAD_RADIUS_M, "on a sphere of radius 1: it is made a head of 95 mm"),
    (20.0, 0.01, "metres away from the head: their places are taken as centimetres"),
    (np.inf, 0.001, "metres away from the head: their places are taken as millimetres"),
)


@dataclass(frozen=True)
class LeadPlaces:
    """metres: x, y, z of each lead, None where its file does not say."""

    metres: tuple[LeadPlace | None, ...]
    notes: tuple[str, ...] = ()


def places_of(channels: Sequence[Any]) -> LeadPlaces:
    """The places of some channels of an MNE info."""
    found = [_place(channel) for channel in channels]
    # A single lead may stand anywhere: the middle one tells of all.
    distances = [float(np.abs(place).max()) for place in found if place is not None]
    middle = float(np.median(distances)) if distances else 0.0
    metres, said = next((metres, said) for up_to, metres, said in _UNITS if middle < up_to)
    return LeadPlaces(
        tuple(None if place is None else tuple((place * metres).tolist()) for place in found),
        (f"its leads stand {said}",) if said else (),
    )


def _place(channel: Any) -> NDArray[np.float64] | None:
    """Where a channel is, as the file has it; None where it does not say."""
    place = np.asarray(channel["loc"][:3], dtype=np.float64)
    known = bool(np.isfinite(place).all() and place.any())
    return place if known and int(channel["coord_frame"]) == FIFF_COORD_HEAD else None
