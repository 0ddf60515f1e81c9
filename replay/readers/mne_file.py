"""A file that MNE reads (EDF, BDF, GDF, FIF, BrainVision, CNT, EEGLAB): lazily, piece by piece."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mne
import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.options import SourceOptions
from replay.readers.bids import kinds_beside
from replay.readers.brainvision_parts import check_parts
from replay.readers.content import Content
from replay.readers.crash_probe import probe_matlab
from replay.readers.events_of_raw import events_of_raw
from replay.readers.events_table import EventsTable, events_beside
from replay.readers.guard import reading
from replay.readers.mne_signal import MneSignal, scale_of

OPENERS: dict[str, tuple[str, Callable[..., Any]]] = {
    ".edf": ("EDF", mne.io.read_raw_edf),
    ".bdf": ("BDF", mne.io.read_raw_bdf),
    ".gdf": ("GDF", mne.io.read_raw_gdf),
    ".fif": ("FIF", mne.io.read_raw_fif),
    ".vhdr": ("BrainVision", mne.io.read_raw_brainvision),
    ".cnt": ("CNT", mne.io.read_raw_cnt),
    ".set": ("EEGLAB", mne.io.read_raw_eeglab),
}
MAX_CHANNELS = 4096
MAX_RATE = 1e6
FIFF_COORD_HEAD = 4
STIM_NAMES = ("trigger", "status", "stim", "sti 014", "sti014", "sti101", "sti 101", "din")


def read_mne(path: Path, options: SourceOptions) -> Content:
    """Open a file of one of the formats above; nothing but its header is read."""
    form, opener = OPENERS[path.suffix.lower()]
    if form == "EEGLAB":
        probe_matlab(path)  # a .set is a MATLAB file
    if form == "BrainVision":
        check_parts(path)
    with reading(str(path), form) as notes, mne.use_log_level("warning"):
        raw = opener(str(path), preload=False)
    return content_of_raw(
        raw,
        path.name,
        form,
        path.stem,
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
    subject: str,
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
    kind_of |= {lead: kind for lead, kind in (kinds or {}).items() if lead in kind_of}
    stim = [i for i, channel in enumerate(raw.ch_names) if _is_stim(channel, kind_of[channel])]
    picked = [
        i for i, channel in enumerate(raw.ch_names) if i not in stim and channel != options.triggers
    ]
    if not picked:
        raise SourceError(f"{name} has no channel but triggers: {', '.join(raw.ch_names)}")
    with reading(name, form):
        events, said = events_of_raw(raw, name, stim, options, table, path)
    scales = [scale_of(raw, i) for i in picked]
    leads = tuple(
        _lead(raw.info["chs"][i], kind_of[raw.ch_names[i]], scale)
        for i, scale in zip(picked, scales, strict=True)
    )
    return Content(
        name=name,
        form=form,
        subject=subject,
        rate=float(raw.info["sfreq"]),
        leads=leads,
        signal=MneSignal(name, raw, picked, scales),
        events=events,
        notes=(*notes, *said, *_unit_notes(leads, scales)),
        lazy=True,
    )


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


def _lead(info: Any, kind: str, scale: float) -> Lead:
    place = np.asarray(info["loc"][:3], dtype=float)
    known = bool(np.isfinite(place).all() and place.any())
    in_head = int(info["coord_frame"]) == FIFF_COORD_HEAD
    return Lead(
        name=str(info["ch_name"]),
        kind=kind,
        unit="microvolts" if scale != 1.0 or kind == "EEG" else "none",
        position=(float(place[0]), float(place[1]), float(place[2])) if known and in_head else None,
    )


def _unit_notes(leads: tuple[Lead, ...], scales: list[float]) -> tuple[str, ...]:
    pairs = zip(leads, scales, strict=True)
    unsaid = [lead.name for lead, scale in pairs if scale == 1.0 and lead.kind == "EEG"]
    if not unsaid:
        return ()
    return (f"the file gives no unit for {', '.join(unsaid[:8])}: taken as microvolts",)
