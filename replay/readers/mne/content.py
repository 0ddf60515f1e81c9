"""A raw object of MNE, from a file or from MOABB, as content: leads, signal, events, notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead, is_trigger_name
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.bids import kinds_beside
from replay.readers.events_table import TableBeside, events_beside
from replay.readers.guard import reading
from replay.readers.mne.raw_events import events_of_raw
from replay.readers.mne.raw_file import ChannelScale, RawFile, describe_held

MAX_CHANNELS = 4096
MAX_RATE = 1e6


def content_of_file(
    path: Path, file: RawFile, form: str, options: SourceOptions, notes: list[str]
) -> Content:
    """The content of a file, with events and kinds of leads from tables beside it."""
    table, kinds = events_beside(path, options), kinds_beside(path)
    return content_of_raw(file, form, options, table=table, kinds=kinds, notes=tuple(notes))


def content_of_raw(
    file: RawFile,
    form: str,
    options: SourceOptions,
    *,
    table: TableBeside | None = None,
    kinds: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Content:
    """The content of a raw object; no sample is read.

    table: events from a file beside the recording. kinds: kinds of leads, which take precedence.
    """
    name, raw = file.name, file.raw
    _check(file)
    with reading(name, form):
        kind_of = _kinds(file, kinds or {})
    stim = [i for i, lead in enumerate(raw.ch_names) if _is_trigger(lead, kind_of[lead])]
    picked = [
        i for i, lead in enumerate(raw.ch_names) if i not in stim and lead != options.triggers
    ]
    if not picked:
        raise SourceError(f"{name} has no channel but triggers: {', '.join(raw.ch_names)}")
    with reading(name, form):
        found = events_of_raw(file, stim, options, table)
    scales = [file.scales[i] for i in picked]
    places = places_of([raw.info["chs"][i] for i in picked])
    leads = tuple(
        _lead(raw.ch_names[i], kind_of[raw.ch_names[i]], scale, place)
        for i, scale, place in zip(picked, scales, places.metres, strict=True)
    )
    return Content(
        name=name,
        form=form,
        rate=file.rate,
        leads=leads,
        signal=file.signal(picked, [scale.to_microvolts for scale in scales]),
        events=found.events,
        block_starts=file.times.block_starts if file.times else None,
        notes=(
            *notes,
            *found.notes,
            *places.notes,
            *describe_held(file.groups, picked),
            *_pause_notes(file),
            *_unit_notes(leads, scales),
        ),
        lazy=True,
    )


def _check(file: RawFile) -> None:
    rate, channels = float(file.raw.info["sfreq"]), len(file.raw.ch_names)
    if not 0 < rate <= MAX_RATE:
        raise SourceError(f"{file.name}: invalid sampling rate {rate:g} Hz; it must be above 0")
    if not 0 < channels <= MAX_CHANNELS:
        raise SourceError(f"{file.name} has {channels} channels; 1 to {MAX_CHANNELS} can be read")


def _kinds(file: RawFile, stated: Mapping[str, str]) -> dict[str, str]:
    names = file.raw.ch_names
    kinds = dict(zip(names, map(str.upper, file.raw.get_channel_types()), strict=True))
    for name, scale in zip(names, file.scales, strict=True):
        if scale.other_unit and kinds[name] == "EEG":
            kinds[name] = "MISC"
    kinds |= {name: "MISC" for name, kind in kinds.items() if kind.startswith("FNIRS")}
    return kinds | {name: kind for name, kind in stated.items() if name in kinds}


def _is_trigger(channel: str, kind: str) -> bool:
    return kind == "STIM" or is_trigger_name(channel)


def _lead(name: str, kind: str, scale: ChannelScale, place: "LeadPlace | None") -> Lead:
    unit = "microvolts" if scale.is_voltage else scale.other_unit
    return Lead(name, kind, unit or ("microvolts" if kind == "EEG" else "none"), place)


def _pause_notes(file: RawFile) -> tuple[str, ...]:
    if file.times is None or not file.times.pauses:
        return ()
    count = len(file.times.pauses)
    found = "there is a pause" if count == 1 else f"there are {count} pauses"
    return (
        f"{found} in it: a block begins after each, and events are on the sample of their time",
    )


def _unit_notes(leads: tuple[Lead, ...], scales: list[ChannelScale]) -> tuple[str, ...]:
    unknown = [
        lead.name
        for lead, scale in zip(leads, scales, strict=True)
        if not scale.is_voltage and lead.unit == "microvolts"
    ]
    if not unknown:
        return ()
    return (f"the file gives no unit for {', '.join(unknown[:8])}: taken as microvolts",)


FIFF_COORD_HEAD = 4
HEAD_RADIUS_M = 0.095

LeadPlace = tuple[float, float, float]

# (limit of the median lead's largest coordinate, factor to metres, description)
_PLACE_UNITS = (
    (0.5, 1.0, None),
    (2.0, HEAD_RADIUS_M, "on a sphere of radius 1, which is scaled to a head of 95 mm"),
    (20.0, 0.01, "metres away from the head, and are taken as centimetres"),
    (np.inf, 0.001, "metres away from the head, and are taken as millimetres"),
)


@dataclass(frozen=True)
class LeadPlaces:
    """metres: x, y, z of each lead; None where the file does not state it."""

    metres: tuple[LeadPlace | None, ...]
    notes: tuple[str, ...] = ()


def places_of(channels: Sequence[Any]) -> LeadPlaces:
    """The positions of channels of an MNE info, scaled to metres by the size of the whole montage."""
    found = [_place(channel) for channel in channels]
    distances = [float(np.abs(place).max()) for place in found if place is not None]
    middle = float(np.median(distances)) if distances else 0.0
    metres, note = next((metres, note) for limit, metres, note in _PLACE_UNITS if middle < limit)
    return LeadPlaces(
        tuple(None if place is None else tuple((place * metres).tolist()) for place in found),
        (f"its lead positions are {note}",) if note else (),
    )


def _place(channel: Any) -> NDArray[np.float64] | None:
    place = np.asarray(channel["loc"][:3], dtype=np.float64)
    known = bool(np.isfinite(place).all() and place.any())
    return place if known and int(channel["coord_frame"]) == FIFF_COORD_HEAD else None
