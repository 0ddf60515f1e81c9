"""MNE raw objects: what is known about their channels, and the channels as a signal.

Channels of an EDF, BDF or GDF file may have different rates. MNE resamples them to the highest rate with a
Fourier transform of each piece that it reads, so that a value depends on where the piece ends and on later
samples. Here the channels of each rate have a raw object of their own, and a slower channel holds each value
until its next one.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError, shorten_list
from bci_stream.packet import FloatArray
from replay.model.events import StimColumn
from replay.model.signal import Signal
from replay.model.units import microvolts
from replay.readers.mne.record_times import RecordTimes

FIFF_UNIT_VOLT = 107
_NO_UNIT = ("", "n/a")


@dataclass(frozen=True)
class ChannelHeader:
    """What the header of an EDF, BDF or GDF file states about each channel that MNE reads.

    units: as spelt in the header. mne_factors: what MNE multiplies the physical values by, according to the
    unit. counts: samples in each record.
    """

    units: tuple[str, ...]
    mne_factors: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class ChannelScale:
    """How the values that MNE returns for a channel are scaled.

    unit: the unit stated in the file; empty if there is none.
    to_microvolts: 1 for a channel that is not a voltage. to_stored: gives the physical value stored in the
    file, which is what a trigger code is.
    """

    unit: str
    is_voltage: bool
    to_microvolts: float
    to_stored: float

    @property
    def other_unit(self) -> str | None:
        """The stated unit, if it is not a voltage: degC, %, l/min."""
        return self.unit if self.unit and microvolts(self.unit) is None else None


def channel_scales(raw: Any, header: ChannelHeader | None) -> list[ChannelScale]:
    """The scales of all channels; header: None for formats in which MNE handles every unit."""
    kinds = raw.get_channel_types()
    if header is None:
        stated = raw._orig_units or {}
        pairs = zip(raw.info["chs"], kinds, strict=True)
        return [_scale(info, kind, stated.get(info["ch_name"])) for info, kind in pairs]
    return [
        _scale_in_records(kind, unit, factor)
        for kind, unit, factor in zip(kinds, header.units, header.mne_factors, strict=True)
    ]


def _scale(info: Any, kind: str, stated: str | None) -> ChannelScale:
    """For values that MNE has converted to volts. stated: None where the format has no units."""
    per_unit = microvolts(stated) if stated else None
    in_volts = int(info["unit"]) == FIFF_UNIT_VOLT and (stated is None or per_unit is not None)
    in_volts &= not kind.startswith(
        "fnirs"
    )  # MNE states volts for the light that a detector measures
    to_stored = 1e6 / per_unit if per_unit and kind != "stim" else 1.0
    unit = "" if stated in (None, *_NO_UNIT) else str(stated)
    return ChannelScale(unit, in_volts, 1e6 if in_volts else 1.0, to_stored)


def _scale_in_records(kind: str, unit: str, mne_factor: float) -> ChannelScale:
    """For EDF, BDF and GDF, where MNE knows few spellings of a unit and takes the others as volts."""
    if kind == "stim":
        return ChannelScale(unit, False, 1.0, 1.0)
    to_stored, per_unit = 1 / mne_factor, microvolts(unit)
    if per_unit is None:
        return ChannelScale(unit, False, 1.0, to_stored)
    return ChannelScale(unit, True, to_stored * per_unit, to_stored)


class MneSignal:
    """Channels of a raw object, each multiplied by its own factor."""

    def __init__(
        self, name: str, raw: Any, channels: Sequence[int], scales: Sequence[float]
    ) -> None:
        self._name, self._raw = name, raw
        self._channels, self._scales = list(channels), np.array(scales, dtype=np.float64)
        # A raw object seeks in its file, so only one thread may read at a time.
        self._lock = threading.Lock()

    @property
    def n_samples(self) -> int:
        return int(self._raw.n_times)

    def read(self, start: int, stop: int) -> FloatArray:
        values = self._values(start, stop)
        samples = np.empty((values.shape[1], values.shape[0]), dtype=np.float32)
        # Multiplied in double precision and rounded once. Overflow gives infinity, which
        # `replay.transform.fit` refuses.
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(values.T, self._scales, out=samples, casting="unsafe")
        return samples

    def _values(self, start: int, stop: int) -> NDArray[np.float64]:
        try:
            with self._lock, mne.use_log_level("error"):
                values: NDArray[np.float64] = self._raw[self._channels, start:stop][0]
        except Exception as error:  # a parser may raise anything for a damaged file
            raise SourceError(
                f"{self._name} can't be read at samples {start} to {stop}: {error}. Did the file change, or "
                "become shorter, since it was opened?"
            ) from error
        if values.shape[1] != stop - start:
            raise SourceError(f"{self._name} ends at sample {start + values.shape[1]} of {stop}")
        return values


@dataclass(frozen=True)
class RateGroup:
    """The channels of one rate. channels: their numbers in the file, and places: in the raw object."""

    raw: Any
    channels: tuple[int, ...]
    places: tuple[int, ...]
    count: int


def group_by_rate(
    raw: Any, name: str, counts: Sequence[int], reopen: Callable[[list[str], int], Any]
) -> list[RateGroup]:
    """Split a raw object into groups of equal rate, slowest first.

    counts: samples of each channel in a record. reopen: gives a raw object of these channels, which have so
    many samples in a record.
    """
    if min(counts) < 1:
        lead = raw.ch_names[list(counts).index(min(counts))]
        raise SourceError(f"{name}: {lead} has no sample in any record; is the file damaged?")
    if len(set(counts)) == 1:
        every = tuple(range(len(counts)))
        return [RateGroup(raw, every, every, counts[0])]
    groups = []
    for count in sorted(set(counts)):
        channels = tuple(k for k, own in enumerate(counts) if own == count)
        names = [raw.ch_names[k] for k in channels]
        part = reopen(names, count)
        groups.append(RateGroup(part, channels, tuple(map(part.ch_names.index, names)), count))
    return groups


def signal_of_groups(
    name: str, groups: Sequence[RateGroup], channels: Sequence[int], scales: Sequence[float]
) -> Signal:
    """Some channels at the rate of the fastest group."""
    parts = []
    for group in groups:
        columns = [k for k, channel in enumerate(channels) if channel in group.channels]
        if columns:
            place_of = dict(zip(group.channels, group.places, strict=True))
            places = [place_of[channels[k]] for k in columns]
            signal = MneSignal(name, group.raw, places, [scales[k] for k in columns])
            parts.append(_HeldPart(signal, group.count, columns))
    if len(groups) == 1:
        return parts[0].signal
    fastest = groups[-1]
    return HeldSignal(parts, len(channels), fastest.count, int(fastest.raw.n_times))


@dataclass(frozen=True)
class _HeldPart:
    signal: Signal
    count: int
    columns: list[int]


@dataclass(frozen=True)
class HeldSignal:
    """Channels of several rates side by side: each value is held until the channel's next one."""

    parts: Sequence[_HeldPart]
    n_leads: int
    count: int
    n_samples: int

    def read(self, start: int, stop: int) -> FloatArray:
        samples = np.empty((stop - start, self.n_leads), dtype=np.float32)
        for part in self.parts:
            at = np.arange(start, stop) * part.count // self.count
            values = part.signal.read(int(at[0]), int(at[-1]) + 1)
            samples[:, part.columns] = values[at - at[0]]
        return samples


def describe_held(groups: Sequence[RateGroup], channels: Sequence[int]) -> tuple[str, ...]:
    """A note about the channels that are slower than the stream."""
    rate = float(groups[-1].raw.info["sfreq"])
    slow = [
        f"{group.raw.ch_names[place]} ({rate * group.count / groups[-1].count:g} Hz)"
        for group in groups[:-1]
        for channel, place in zip(group.channels, group.places, strict=True)
        if channel in channels
    ]
    if not slow:
        return ()
    return (
        f"{shorten_list(slow)}: slower than the stream's {rate:g} Hz, each value is held until the next one",
    )


@dataclass(frozen=True)
class RawFile:
    """A raw object and what is known about its file beside what MNE reports.

    groups: raw objects of the channels of each rate, slowest first; one for most files.
    header: see `ChannelHeader`. found: annotations, if not those of the raw object.
    times: when the records begin, if there are pauses between them.
    stim_column: reads one channel without the others (name, whether it is a stim channel); None where MNE
    must read it.
    codes_in_microvolts: MNE converts trigger codes of this format to volts as if they were microvolts.
    """

    raw: Any
    name: str
    groups: tuple[RateGroup, ...]
    header: ChannelHeader | None = None
    found: Any = None
    times: RecordTimes | None = None
    stim_column: Callable[[str, bool], StimColumn | None] = lambda _name, _is_stim: None
    codes_in_microvolts: bool = False

    @classmethod
    def of(cls, raw: Any, name: str, *, codes_in_microvolts: bool = False) -> "RawFile":
        """A raw object whose channels all have one rate."""
        every = tuple(range(len(raw.ch_names)))
        group = RateGroup(raw, every, every, 1)
        return cls(raw, name, (group,), codes_in_microvolts=codes_in_microvolts)

    @property
    def rate(self) -> float:
        return float(self.groups[-1].raw.info["sfreq"])

    @property
    def n_samples(self) -> int:
        return int(self.groups[-1].raw.n_times)

    @property
    def annotations(self) -> Any:
        return self.raw.annotations if self.found is None else self.found

    @cached_property
    def scales(self) -> list[ChannelScale]:
        return channel_scales(self.raw, self.header)

    def is_stim(self, channel: int) -> bool:
        return bool(self.raw.get_channel_types(picks=[channel])[0] == "stim")

    def signal(self, channels: Sequence[int], scales: Sequence[float]) -> Signal:
        return signal_of_groups(self.name, self.groups, channels, scales)
