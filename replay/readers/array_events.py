"""Events of arrays: in a row of the data, or in an array of their own (sample, ..., code)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.event_map import said_aloud
from replay.events import MAX_CODE, Events, KnownEvents, Mark, PlainColumn, StimEvents
from replay.options import SourceOptions
from replay.readers.events_table import marks_of, read_events_table


def looks_like_triggers(row: NDArray[Any]) -> bool:
    """Whole numbers of 0 and more, mostly 0, but not all: no lead looks like that."""
    values = np.asarray(row)
    whole = bool(np.all(np.isfinite(values)) and np.all(values == np.rint(values)))
    if not whole or values.min() < 0 or values.max() > MAX_CODE:
        return False
    return bool(0 < np.count_nonzero(values) < 0.5 * values.size)


def events_of_arrays(
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    data: NDArray[Any],
    trigger_row: int | None,
    rate: float,
    options: SourceOptions,
) -> tuple[Events, tuple[str, ...]]:
    """The triggers, and what is to be said about them."""
    n_samples = int(data.shape[1])
    if options.triggers == "none":
        marks: list[Mark] = []
    elif options.events_file:
        table = read_events_table(options.events_file, options.events)
        marks = marks_of(table, rate, first_sample=0)
    elif trigger_row is None or ("events" in arrays and options.triggers in (None, "events")):
        # An array of events can hold two of one sample, which a row can't: it goes first.
        marks = _marks_of_array(name, arrays.get("events"), n_samples)
    else:
        marks = marks_of_row(name, data[trigger_row])
    triggers = options.events.triggers(marks, rate, n_samples)
    return KnownEvents(triggers), said_aloud(options.events, marks)


def marks_of_row(name: str, row: NDArray[Any]) -> list[Mark]:
    def read(start: int, stop: int) -> NDArray[np.float32]:
        return np.asarray(row[start:stop], dtype=np.float32)

    return StimEvents(name, len(row), PlainColumn(read), lambda _: ()).all_marks()


def _check_whole(name: str, meaning: str, column: NDArray[Any]) -> None:
    """Refuse a column with a fraction: cut off, it would be another event, or at another time."""
    broken = np.flatnonzero(~np.isfinite(column) | (column != np.rint(column)))
    if broken.size:
        raise SourceError(
            f"{name}: events has {column[broken[0]]:g} for the {meaning} of row {broken[0]} (from "
            f"0), in {broken.size} of {len(column)} rows; a {meaning} is a whole number. Round "
            "them, or say ?triggers=none"
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
