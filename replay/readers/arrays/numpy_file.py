"""A numpy file: .npy (one matrix, memory-mapped) or .npz (arrays in our layout, or clips by class)."""

import re
from pathlib import Path

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.model.events import KnownEvents
from replay.model.options import SourceOptions
from replay.model.signal import ArraySignal, Content
from replay.readers.arrays.layout import Arrays, content_of_arrays, lead_names, rate_in
from replay.readers.arrays.rows import AnyArray
from replay.readers.guard import reading
from tracks.common.codes import (
    BLOCK_END,
    BLOCK_START,
    SESSION_END,
    SESSION_START,
    TRIAL_END,
    TRIAL_START,
)
from tracks.emotion import CLASSES, CLIP_NUMBER_LEAD_S, CLIPS, TRACK

EPOC_14 = ("AF3", "F7", "F3", "FC5", "T7", "P7", "O1", "O2", "P8", "T8", "FC6", "F4", "F8", "AF4")
"""The leads of the headset, for files that do not name them."""

FIRST_CLIP_OF_CLASS = {
    label: min(number for number, (_, of) in CLIPS.items() if of == label) for label in CLASSES
}

_CLASS = re.compile(r"class([0-8])")


def holds_clips(arrays: Arrays) -> bool:
    return any(_CLASS.fullmatch(key) for key in arrays)


def content_of_clips(name: str, form: str, arrays: Arrays, options: SourceOptions) -> Content:
    """The clips of a file, in the order of their classes; each clip is a block."""
    classes = sorted(int(found[1]) for key in arrays if (found := _CLASS.fullmatch(key)))
    clips = [_clip(name, arrays, number) for number in classes]
    if len({len(clip) for clip in clips}) > 1:
        raise SourceError(f"{name}: its clips have different numbers of leads")
    notes = ["each clip became a block, under the number of its class's first clip"]
    rate = rate_in(name, arrays, options, TRACK.name, notes)
    starts = np.cumsum([0, *(clip.shape[1] for clip in clips)])
    triggers = [
        trigger
        for number, start, stop in zip(classes, starts, starts[1:], strict=False)
        for trigger in _clip_triggers(FIRST_CLIP_OF_CLASS[number], int(start), int(stop), rate)
    ]
    last = int(starts[-1]) - 1
    return Content(
        name=name,
        form=form,
        rate=rate,
        leads=_leads(name, arrays, len(clips[0]), options, notes),
        signal=ArraySignal(np.concatenate(clips, axis=1)),
        events=KnownEvents([(0, SESSION_START), *triggers, (last, SESSION_END)]),
        block_starts=tuple(int(start) for start in starts[:-1]),
        track=TRACK.name,
        notes=tuple(notes),
    )


def _clip(name: str, arrays: Arrays, number: int) -> AnyArray:
    clip = arrays[f"class{number}"]
    if clip.ndim != 2 or clip.dtype.kind not in "fiu" or clip.shape[1] < 2:
        raise SourceError(f"{name}: class{number} must be leads x samples, got {clip.shape}")
    return clip


def _clip_triggers(clip: int, start: int, stop: int, rate: float) -> list[tuple[int, int]]:
    begins = min(start + round(CLIP_NUMBER_LEAD_S * rate), stop - 1)
    return [
        (start, BLOCK_START),
        (start, clip),
        (begins, TRIAL_START),
        (stop - 1, TRIAL_END),
        (stop - 1, BLOCK_END),
    ]


def _leads(
    name: str, arrays: Arrays, rows: int, options: SourceOptions, notes: list[str]
) -> tuple[Lead, ...]:
    names = lead_names(arrays, options)
    if not names and rows == len(EPOC_14):
        notes.append("the file names no leads: its 14 rows are taken as an EPOC headset's")
        names = EPOC_14
    names = names or tuple(f"ch{number}" for number in range(1, rows + 1))
    if len(names) != rows:
        raise SourceError(f"{name} names {len(names)} leads for {rows} rows")
    return tuple(Lead(lead) for lead in names)


def read_numpy(path: Path, options: SourceOptions) -> Content:
    """Read a .npy or .npz; pickled objects in it are refused."""
    if path.suffix.lower() == ".npy":
        with reading(str(path), "npy"):
            data = np.load(path, mmap_mode="r", allow_pickle=False)
            return content_of_arrays(path.name, "npy", {"data": data}, options)
    with reading(str(path), "npz"):
        # Opened here, because numpy leaves a file open that is not an archive.
        with path.open("rb") as archive, np.load(archive, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        read = content_of_clips if holds_clips(arrays) else content_of_arrays
        return read(path.name, "npz", arrays, options)
