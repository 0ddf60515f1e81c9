"""The array layout: a recording as named arrays (.npz, .mat, .npy, .pkl).

`data` has one row for each lead, and often the triggers as its last row. Optional arrays are `rate`, `leads`,
`kinds`, `events` (sample, ..., code), `block_starts`, `track`, `subject`, `angles`. Facts that are missing
come from the options or the track.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.model.event_map import describe_map
from replay.model.events import Events, KnownEvents, Mark, PlainColumn, StimEvents
from replay.model.options import SourceOptions, track_named
from replay.model.signal import ArraySignal, Content
from replay.model.units import VOLTAGES, microvolts
from replay.readers.arrays.rows import AnyArray, check_choice, find_rows
from replay.readers.events_table import marks_of, read_events_table


def events_of_arrays(
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    data: NDArray[Any],
    trigger_row: int | None,
    rate: float,
    options: SourceOptions,
) -> tuple[Events, tuple[str, ...]]:
    """The triggers, and notes about them."""
    n_samples = int(data.shape[1])
    if options.triggers == "none":
        marks: list[Mark] = []
    elif options.events_file:
        table = read_events_table(options.events_file, options.events)
        marks = marks_of(table, rate, first_sample=0)
    elif trigger_row is None or ("events" in arrays and options.triggers in (None, "events")):
        # An array of events can have two on one sample, unlike a row, so it takes precedence.
        marks = _marks_of_array(name, arrays.get("events"), n_samples)
    else:
        marks = marks_of_row(name, data[trigger_row])
    triggers = options.events.triggers(marks, rate, n_samples)
    return KnownEvents(triggers), describe_map(options.events, marks)


def marks_of_row(name: str, row: NDArray[Any]) -> list[Mark]:
    def read(start: int, stop: int) -> NDArray[np.float32]:
        return np.asarray(row[start:stop], dtype=np.float32)

    return StimEvents(name, len(row), PlainColumn(read), lambda _: ()).all_marks()


def _check_whole(name: str, meaning: str, column: NDArray[Any]) -> None:
    """Refuse a column with fractions, which rounding would turn into other events."""
    broken = np.flatnonzero(~np.isfinite(column) | (column != np.rint(column)))
    if broken.size:
        raise SourceError(
            f"{name}: events has {column[broken[0]]:g} for the {meaning} of row {broken[0]} (from "
            f"0), in {broken.size} of {len(column)} rows; a {meaning} is a whole number. Round "
            "them, or use ?triggers=none"
        )


def _marks_of_array(name: str, events: NDArray[Any] | None, n_samples: int) -> list[Mark]:
    if events is None or events.size == 0:
        return []
    if events.ndim != 2 or events.shape[1] < 2 or events.dtype.kind not in "fiu":
        raise SourceError(
            f"{name}: events is {events.shape}; it must be rows of (sample, ..., code)"
        )
    _check_whole(name, "sample", events[:, 0])
    _check_whole(name, "code", events[:, -1])
    marks = [Mark(int(row[0]), str(int(row[-1]))) for row in events]
    outside = [mark.sample for mark in marks if not 0 <= mark.sample < n_samples]
    if outside:
        raise SourceError(f"{name}: an event lies at sample {outside[0]} of {n_samples}")
    return marks


def scaled_rows(rows: AnyArray, scales: Sequence[float]) -> ArraySignal:
    """Rows as a signal, each with its own scale; not copied if all scales are equal."""
    if len(set(scales)) == 1:
        return ArraySignal(rows, scales[0])
    return ArraySignal(rows * np.array(scales, dtype=np.float64)[:, None])


Arrays = Mapping[str, AnyArray]

JOINTS = 8
DATA_KEYS = ("data", "eeg", "EEG", "signal", "signals", "X", "x")
RATE_KEYS = ("rate", "fs", "Fs", "srate", "sfreq", "sampling_rate", "sample_rate")
LEAD_KEYS = ("leads", "ch_names", "channels", "channel_names", "labels", "names")
LAYOUT_KEYS = (*DATA_KEYS, *RATE_KEYS, *LEAD_KEYS, "kinds", "events", "block_starts", "track",
               "subject", "angles", "set")  # fmt: skip
SUBJECT_ID = re.compile(r"(?!\.)[\w.-]{1,64}")
MASKED = "masked"
"""The test set of `prepare`: played without its track, because it has no truth."""


def content_of_arrays(name: str, form: str, arrays: Arrays, options: SourceOptions) -> Content:
    """The content of arrays in this layout."""
    notes: list[str] = []
    masked = text_in(arrays, "set") == MASKED
    names = lead_names(arrays, options)
    data = _data(name, arrays, options, len(names), notes)
    track = options.track or text_in(arrays, "track")
    rate = rate_in(name, arrays, options, track, notes)
    rows = find_rows(name, data, names, track, options, notes)
    check_choice(name, "events" in arrays, names, rows.trigger, options)
    leads = rows.leads(name, arrays.get("kinds"))
    events, event_notes = events_of_arrays(name, arrays, data, rows.trigger, rate, options)
    return Content(
        name=name,
        form=form,
        rate=rate,
        leads=leads,
        signal=scaled_rows(rows.without_triggers(data), [_scale(lead, options) for lead in leads]),
        events=events,
        block_starts=_block_starts(name, arrays, data.shape[1]),
        angles=_angles(name, arrays),
        subject=_subject(name, arrays),
        track=None if masked else text_in(arrays, "track"),
        notes=(*notes, *event_notes),
        masked=masked,
    )


def _scale(lead: Lead, options: SourceOptions) -> float:
    return microvolts(options.unit or "uV") or 1.0 if lead.kind in VOLTAGES else 1.0


def text_in(arrays: Arrays, key: str) -> str | None:
    """The text of an array with one element; None if it is missing or empty."""
    if key not in arrays or np.size(arrays[key]) != 1:
        return None
    return str(np.asarray(arrays[key]).reshape(-1)[0]).strip() or None


def _subject(name: str, arrays: Arrays) -> str | None:
    """The subject's id, checked because it becomes part of file names."""
    subject = text_in(arrays, "subject")
    if subject and not SUBJECT_ID.fullmatch(subject):
        raise SourceError(
            f"{name}: its subject is {subject[:80]!r}; an id has 1 to 64 letters, digits and . _ -, "
            "and no leading dot"
        )
    return subject


def _data(
    name: str, arrays: Arrays, options: SourceOptions, n_names: int, notes: list[str]
) -> AnyArray:
    key = options.variable or data_key(name, arrays)
    if key not in arrays:
        raise SourceError(f"{name} has no variable {key!r}; it has {_described(arrays)}")
    data = arrays[key]
    if data.ndim != 2 or data.dtype.kind not in "fiub" or not data.size:
        raise SourceError(
            f"{name}: variable {key!r} is {_shape(data)}; a recording is a matrix of real "
            "numbers, a row a lead"
        )
    if _lies_by_samples(data.shape[0], data.shape[1], n_names):
        notes.append(f"{key} is {_shape(data)}: taken as samples x leads, and turned")
        return data.T
    return data


def _lies_by_samples(rows: int, columns: int, n_names: int) -> bool:
    """The number of names decides, with or without triggers; without names the longer side is time."""
    for n_leads in (n_names, n_names + 1) if n_names else ():
        if n_leads in (rows, columns):
            return rows != n_leads
    return rows > columns


def data_key(name: str, arrays: Arrays) -> str:
    """The name of the variable that holds the recording."""
    known = [key for key in DATA_KEYS if key in arrays]
    matrices = [
        k for k, a in arrays.items() if a.ndim == 2 and a.dtype.kind in "fiu" and a.size > 64
    ]
    if known:
        return known[0]
    if len(matrices) == 1:
        return matrices[0]
    raise SourceError(
        f"{name} has no variable `data`; it has {_described(arrays)}. Name the right one with "
        "?variable=NAME"
    )


def _described(arrays: Arrays) -> str:
    shown = [f"{key} ({_shape(array)})" for key, array in list(arrays.items())[:12]]
    return ", ".join(shown) or "none at all"


_KINDS_OF_VALUES = {
    "U": "text",
    "S": "text",
    "O": "cells",
    "V": "struct",
    "c": "complex",
    "b": "bool",
}


def _shape(array: AnyArray) -> str:
    values = _KINDS_OF_VALUES.get(array.dtype.kind, str(array.dtype))
    return f"{' x '.join(map(str, array.shape)) or 'a single'} {values}"


def rate_in(
    name: str, arrays: Arrays, options: SourceOptions, track: str | None, notes: list[str]
) -> float:
    if options.rate:
        return options.rate
    for key in RATE_KEYS:
        if key in arrays and np.size(arrays[key]) == 1 and arrays[key].dtype.kind in "fiu":
            rate = float(arrays[key].reshape(-1)[0])
            if not 0 < rate <= 1e6:
                raise SourceError(f"{name}: {key} is {rate:g}; a rate is more than 0 Hz")
            return rate
    if track:
        rate = float(track_named(track).rate)
        notes.append(f"the file states no rate: taken as the track's {rate:g} Hz")
        return rate
    raise SourceError(f"{name} states no rate: add ?rate=HERTZ, or name the track")


def lead_names(arrays: Arrays, options: SourceOptions) -> tuple[str, ...]:
    if options.leads:
        return options.leads
    for key in LEAD_KEYS:
        if key in arrays and arrays[key].dtype.kind in "US":
            return tuple(str(n).strip() for n in arrays[key].reshape(-1).astype(str))
    return ()


def _block_starts(name: str, arrays: Arrays, n_samples: int) -> tuple[int, ...] | None:
    if "block_starts" not in arrays or not arrays["block_starts"].size:
        return None
    starts = tuple(int(start) for start in arrays["block_starts"].reshape(-1))
    rising = all(a < b for a, b in pairwise(starts))
    if not rising or starts[0] < 0 or starts[-1] >= n_samples:
        raise SourceError(
            f"{name}: block_starts must rise from 0 and stay below {n_samples}, got {starts[:8]}"
        )
    return starts if starts[0] == 0 else (0, *starts)


def _angles(name: str, arrays: Arrays) -> NDArray[np.float64] | None:
    if "angles" not in arrays or not arrays["angles"].size:
        return None
    return joint_angles(name, arrays["angles"])


def joint_angles(name: str, angles: AnyArray) -> NDArray[np.float64]:
    """Joint angles as rows x 8 joints; the other way round they are transposed."""
    if angles.ndim != 2 or JOINTS not in angles.shape or angles.dtype.kind not in "fiu":
        raise SourceError(
            f"{name}: angles are {_shape(angles)}; they must be rows x {JOINTS} joints"
        )
    return np.asarray(angles if angles.shape[1] == JOINTS else angles.T, dtype=np.float64)
