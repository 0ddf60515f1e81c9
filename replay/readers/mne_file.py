"""A file that MNE reads (EDF, BDF, GDF, FIF, BrainVision, CNT, EEGLAB): lazily, piece by piece."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.options import SourceOptions
from replay.readers.bids import kinds_beside
from replay.readers.brainvision_parts import check_parts
from replay.readers.buffers import Buffers
from replay.readers.content import Content, Stretch
from replay.readers.crash_probe import probe_matlab
from replay.readers.edf_raw import LazyBdf, LazyEdf
from replay.readers.events_of_raw import events_of_raw
from replay.readers.events_table import EventsTable, events_beside
from replay.readers.fif_raw import open_fif
from replay.readers.find_buffers import find_buffers
from replay.readers.guard import reading
from replay.readers.mne_signal import MneSignal, scale_of

OPENERS: dict[str, tuple[str, Callable[..., Any]]] = {
    ".edf": ("EDF", LazyEdf),
    ".bdf": ("BDF", LazyBdf),
    ".gdf": ("GDF", mne.io.read_raw_gdf),
    ".fif": ("FIF", open_fif),
    ".vhdr": ("BrainVision", mne.io.read_raw_brainvision),
    ".cnt": ("CNT", mne.io.read_raw_cnt),
    ".set": ("EEGLAB", mne.io.read_raw_eeglab),
}
MAX_CHANNELS = 4096
MAX_RATE = 1e6
FIFF_COORD_HEAD = 4
GDF_CHANNEL_HEADER = 256
STIM_NAMES = ("trigger", "status", "stim", "sti 014", "sti014", "sti101", "sti 101", "din")


def read_mne(path: Path, options: SourceOptions) -> Content:
    """Open a file of one of the formats above; nothing but its header is read."""
    form, opener = OPENERS[path.suffix.lower()]
    if form == "EEGLAB":
        probe_matlab(path)  # a .set is a MATLAB file
    if form == "BrainVision":
        check_parts(path)
    if form == "GDF":
        _check_gdf(path)
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
    kind_of |= {lead: kind for lead, kind in (kinds or {}).items() if lead in kind_of}
    stim = [i for i, channel in enumerate(raw.ch_names) if _is_stim(channel, kind_of[channel])]
    picked = [
        i for i, channel in enumerate(raw.ch_names) if i not in stim and channel != options.triggers
    ]
    if not picked:
        raise SourceError(f"{name} has no channel but triggers: {', '.join(raw.ch_names)}")
    with reading(name, form):
        buffers = find_buffers(raw, form)
        found = events_of_raw(raw, name, stim, options, table=table, path=path, buffers=buffers)
        suspects = found.suspects
        if suspects is None and options.nan != "keep":
            suspects = _suspects(raw, form, buffers)
    said = found.notes
    scales = [scale_of(raw, i) for i in picked]
    metres = _metres_of([raw.info["chs"][i] for i in picked])
    leads = tuple(
        _lead(raw.info["chs"][i], kind_of[raw.ch_names[i]], scale, metres)
        for i, scale in zip(picked, scales, strict=True)
    )
    if metres != 1.0:
        said += (
            "its leads stand metres away from the head: their places are taken as millimetres",
        )
    return Content(
        name=name,
        form=form,
        rate=float(raw.info["sfreq"]),
        leads=leads,
        signal=MneSignal(name, raw, picked, scales),
        events=found.events,
        notes=(*notes, *said, *_unit_notes(leads, scales)),
        lazy=True,
        suspects=suspects,
    )


def _suspects(raw: Any, form: str, buffers: Buffers | None) -> tuple[Stretch, ...] | None:
    """Where something may stand that is no number: nowhere in a file of whole numbers."""
    # MNE calls every GDF integer, whatever it holds; and what MOABB gives may have been filtered.
    if form in ("GDF", "MOABB"):
        return None
    if raw.orig_format in ("short", "int"):
        return ()
    return None if buffers is None else buffers.look().suspects


def _check_gdf(path: Path) -> None:
    """A damaged number of channels, up to four billion of them, would keep MNE busy for hours."""
    with path.open("rb") as file:
        head = file.read(GDF_CHANNEL_HEADER)
        size = file.seek(0, os.SEEK_END)
    stands = slice(252, 254) if head[4:8] >= b"1.90" else slice(252, 256)
    channels = int.from_bytes(head[stands], "little")
    if GDF_CHANNEL_HEADER * (1 + channels) > size:
        raise SourceError(f"{path} says it has {channels} channels, but is too short for them")


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


def _lead(info: Any, kind: str, scale: float, metres: float) -> Lead:
    place = _place(info)
    return Lead(
        name=str(info["ch_name"]),
        kind=kind,
        unit="microvolts" if scale != 1.0 or kind == "EEG" else "none",
        position=None if place is None else tuple((place * metres).tolist()),
    )


def _place(info: Any) -> NDArray[np.float64] | None:
    """Where a channel is on the head, as the file has it; None where it does not say."""
    place = np.asarray(info["loc"][:3], dtype=np.float64)
    known = bool(np.isfinite(place).all() and place.any())
    return place if known and int(info["coord_frame"]) == FIFF_COORD_HEAD else None


def _metres_of(channels: list[Any]) -> float:
    """What makes metres of the places: they are metres, but some files have millimetres there."""
    places = [place for info in channels if (place := _place(info)) is not None]
    is_head = not places or max(float(np.abs(place).max()) for place in places) < 1.0
    return 1.0 if is_head else 0.001


def _unit_notes(leads: tuple[Lead, ...], scales: list[float]) -> tuple[str, ...]:
    pairs = zip(leads, scales, strict=True)
    unsaid = [lead.name for lead, scale in pairs if scale == 1.0 and lead.kind == "EEG"]
    if not unsaid:
        return ()
    return (f"the file gives no unit for {', '.join(unsaid[:8])}: taken as microvolts",)
