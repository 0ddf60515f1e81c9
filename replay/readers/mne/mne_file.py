"""A file that MNE reads (EDF, BDF, GDF, FIF, BrainVision, CNT, EEGLAB): lazily, piece by piece."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mne

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.model.options import SourceOptions
from replay.model.signal import Content, SampleRange
from replay.readers.bids import kinds_beside
from replay.readers.events_table import EventsTable, events_beside
from replay.readers.guard import probe_matlab, reading
from replay.readers.mne.buffers import Buffers
from replay.readers.mne.edf import LazyBdf, LazyEdf
from replay.readers.mne.fif import open_fif
from replay.readers.mne.gdf import GdfFile
from replay.readers.mne.mixed_rates import describe_held
from replay.readers.mne.mne_signal import other_unit, scale_of
from replay.readers.mne.parts import check_events, check_parts
from replay.readers.mne.raw_events import events_of_raw
from replay.readers.mne.raw_file import LeadPlace, RawFile, places_of

OPENERS: dict[str, tuple[str, Callable[..., Any]]] = {
    ".edf": ("EDF", LazyEdf),
    ".bdf": ("BDF", LazyBdf),
    ".gdf": ("GDF", GdfFile),
    ".fif": ("FIF", open_fif),
    ".vhdr": ("BrainVision", mne.io.read_raw_brainvision),
    ".cnt": ("CNT", mne.io.read_raw_cnt),
    ".set": ("EEGLAB", mne.io.read_raw_eeglab),
}
MAX_CHANNELS = 4096
MAX_RATE = 1e6
STIM_NAMES = ("trigger", "status", "stim", "sti 014", "sti014", "sti101", "sti 101", "din")


def read_mne(path: Path, options: SourceOptions) -> Content:
    """Open a file of one of the formats above; nothing but its header is read."""
    form, opener = OPENERS[path.suffix.lower()]
    if form == "EEGLAB":
        probe_matlab(path)  # a .set is a MATLAB file
    if form == "BrainVision":
        check_parts(path)
    if form == "CNT":
        check_events(path)
    with reading(str(path), form) as notes, mne.use_log_level("warning"):
        raw = opener(str(path), preload=False)
    return content_of_raw(
        raw,
        path.name,
        form,
        options,
        path=path,
        table=events_beside(path, options),
        kinds=kinds_beside(path),
        notes=tuple(notes),
    )


def content_of_raw(
    raw: Any,
    name: str,
    form: str,
    options: SourceOptions,
    *,
    path: Path | None = None,
    table: EventsTable | None = None,
    kinds: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Content:
    """A raw object of MNE, from wherever it comes, as content.

    path: where it lies, if it is one file. table: events, and kinds: lead kinds, from files beside
    it, which know better.
    """
    _check(name, raw)
    with reading(name, form):
        kind_of = dict(zip(raw.ch_names, map(str.upper, raw.get_channel_types()), strict=True))
    others = [lead for i, lead in enumerate(raw.ch_names) if other_unit(raw, i)]
    kind_of |= {lead: "MISC" for lead in others if kind_of[lead] == "EEG"}
    kind_of |= {lead: kind for lead, kind in (kinds or {}).items() if lead in kind_of}
    stim = [i for i, channel in enumerate(raw.ch_names) if _is_stim(channel, kind_of[channel])]
    picked = [
        i for i, channel in enumerate(raw.ch_names) if i not in stim and channel != options.triggers
    ]
    if not picked:
        raise SourceError(f"{name} has no channel but triggers: {', '.join(raw.ch_names)}")
    with reading(name, form):
        file = RawFile.of(raw, name, form, path)
        found = events_of_raw(file, stim, options, table)
        suspects = found.suspects
        if suspects is None and options.nan != "keep":
            suspects = _suspects(raw, form, file.buffers)
    scales = [scale_of(raw, i) for i in picked]
    places = places_of([raw.info["chs"][i] for i in picked])
    leads = tuple(
        _lead(raw, i, kind_of[raw.ch_names[i]], scale, place)
        for i, scale, place in zip(picked, scales, places.metres, strict=True)
    )
    return Content(
        name=name,
        form=form,
        rate=file.rate,
        leads=leads,
        signal=file.signal(picked, scales),
        events=found.events,
        block_starts=file.times.block_starts if file.times else None,
        notes=(
            *notes,
            *found.notes,
            *places.notes,
            *describe_held(file.raw, picked, file.counts),
            *_pause_notes(file),
            *_unit_notes(leads, scales),
        ),
        lazy=True,
        suspects=suspects,
    )


def _suspects(raw: Any, form: str, buffers: Buffers | None) -> tuple[SampleRange, ...] | None:
    """Where something may stand that is no number: nowhere in a file of whole numbers."""
    # MNE calls every GDF integer, whatever it holds; and what MOABB gives may have been filtered.
    if form in ("GDF", "MOABB"):
        return None
    if raw.orig_format in ("short", "int"):
        return ()
    return None if buffers is None else buffers.look().suspects


def _check(name: str, raw: Any) -> None:
    rate, channels, samples = float(raw.info["sfreq"]), len(raw.ch_names), int(raw.n_times)
    if not 0 < rate <= MAX_RATE:
        raise SourceError(f"{name} says its rate is {rate:g} Hz, which can't be")
    if not 0 < channels <= MAX_CHANNELS:
        raise SourceError(
            f"{name} says it has {channels} channels; 1 to {MAX_CHANNELS} can be read"
        )
    if samples < 1:
        raise SourceError(f"{name} holds no sample")


def _is_stim(channel: str, kind: str) -> bool:
    return kind == "STIM" or channel.strip().lower() in STIM_NAMES


def _lead(raw: Any, channel: int, kind: str, scale: float, place: LeadPlace | None) -> Lead:
    unit = "microvolts" if scale != 1.0 else other_unit(raw, channel)
    return Lead(
        name=raw.ch_names[channel],
        kind=kind,
        unit=unit or ("microvolts" if kind == "EEG" else "none"),
        position=place,
    )


def _pause_notes(file: RawFile) -> tuple[str, ...]:
    if file.times is None or not file.times.pauses:
        return ()
    count = len(file.times.pauses)
    found = "there is a pause" if count == 1 else f"there are {count} pauses"
    return (
        f"{found} in it: a block begins after each, and events stand on the sample of their time",
    )


def _unit_notes(leads: tuple[Lead, ...], scales: list[float]) -> tuple[str, ...]:
    pairs = zip(leads, scales, strict=True)
    unsaid = [lead.name for lead, scale in pairs if scale == 1.0 and lead.unit == "microvolts"]
    if not unsaid:
        return ()
    return (f"the file gives no unit for {', '.join(unsaid[:8])}: taken as microvolts",)
