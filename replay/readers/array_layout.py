"""The array layout: how a recording lies in named arrays (.npz, .mat, .npy, .pkl).

`data` has a row a lead, and often the triggers as its last row; beside it may stand `rate`,
`leads`, `kinds`, `events` (sample, ..., code), `block_starts`, `track`, `subject`, `angles`. What
is not said there, the options or the track say.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.options import SourceOptions
from replay.readers.array_events import events_of_arrays
from replay.readers.array_rows import check_choice, find_rows, scaled_rows
from replay.readers.content import Content
from replay.readers.lead_kinds import VOLTAGES
from replay.track_facts import track_named

Array = NDArray[Any]
Arrays = Mapping[str, Array]

DATA_KEYS = ("data", "eeg", "EEG", "signal", "signals", "X", "x")
RATE_KEYS = ("rate", "fs", "Fs", "srate", "sfreq", "sampling_rate", "sample_rate")
LEAD_KEYS = ("leads", "ch_names", "channels", "channel_names", "labels", "names")
LAYOUT_KEYS = (*DATA_KEYS, *RATE_KEYS, *LEAD_KEYS, "kinds", "events", "block_starts", "track",
               "subject", "angles", "set")  # fmt: skip
MICROVOLTS = {"uV": 1.0, "mV": 1e3, "V": 1e6}
SUBJECT_ID = re.compile(r"(?!\.)[\w.-]{1,64}")
MASKED = "masked"
"""The set that `prepare` shows: played without its track, since it holds no truth."""


def content_of_arrays(name: str, form: str, arrays: Arrays, options: SourceOptions) -> Content:
    """What arrays of that layout hold."""
    notes: list[str] = []
    masked = text_in(arrays, "set") == MASKED
    names = lead_names(arrays, options)
    data = _data(name, arrays, options, len(names), notes)
    track = options.track or text_in(arrays, "track")
    rate = rate_in(name, arrays, options, track, notes)
    rows = find_rows(name, data, names, track, options, notes)
    check_choice(name, "events" in arrays, names, rows.trigger, options)
    leads = rows.leads(name, arrays.get("kinds"))
    events, said = events_of_arrays(name, arrays, data, rows.trigger, rate, options)
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
        notes=(*notes, *said),
        masked=masked,
    )


def _scale(lead: Lead, options: SourceOptions) -> float:
    return MICROVOLTS[options.unit or "uV"] if lead.kind in VOLTAGES else 1.0


def text_in(arrays: Arrays, key: str) -> str | None:
    """The text of a 0-d (or one-element) array, if it is there."""
    if key not in arrays or np.size(arrays[key]) != 1:
        return None
    return str(np.asarray(arrays[key]).reshape(-1)[0]).strip() or None


def _subject(name: str, arrays: Arrays) -> str | None:
    """Its id goes into the names of files: a file must not choose where those stand."""
    subject = text_in(arrays, "subject")
    if subject and not SUBJECT_ID.fullmatch(subject):
        raise SourceError(
            f"{name}: its subject is {subject[:80]!r}; an id has 1 to 64 letters, digits and . _ -, "
            "and begins with no dot"
        )
    return subject


def _data(
    name: str, arrays: Arrays, options: SourceOptions, n_names: int, notes: list[str]
) -> Array:
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
    """Names say how many leads there are, with or without triggers; else the longer side is time."""
    for n_leads in (n_names, n_names + 1) if n_names else ():
        if n_leads in (rows, columns):
            return rows != n_leads
    return rows > columns


def data_key(name: str, arrays: Arrays) -> str:
    """Which of the variables is the recording."""
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


def _shape(array: Array) -> str:
    return f"{' x '.join(map(str, array.shape)) or 'a single'} {array.dtype}"


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
        notes.append(f"the file says no rate: the track's {rate:g} Hz are taken")
        return rate
    raise SourceError(f"{name} says no rate: add ?rate=HERTZ, or name the track")


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
    angles = arrays["angles"]
    if angles.ndim != 2 or 8 not in angles.shape or angles.dtype.kind not in "fiu":
        raise SourceError(f"{name}: angles is {_shape(angles)}; it must be rows x 8 joints")
    return np.asarray(angles if angles.shape[1] == 8 else angles.T, dtype=np.float64)
