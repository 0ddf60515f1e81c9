"""Which rows of a matrix are leads, and which one holds the triggers.

The file, the options or the track name the rows. Of a matrix without names every row is a lead, and the last
one may be the triggers; rows that look like something else are not guessed about: the file is refused, with a
description of its rows and the parameters that would name them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead, is_trigger_name
from replay.model.options import SourceOptions, leads_of_rows, track_named
from replay.model.units import KINDS, VOLTAGES
from tracks.common.codes import MAX_CODE

AnyArray = NDArray[Any]

HEAD_SAMPLES = 1000
"""Samples of a row that are enough to see that it is not a time axis or a trigger channel."""

_SIGNAL, _TIME, _TRIGGERS = (
    "a signal",
    "rises evenly, like a time axis or a counter",
    "whole numbers, mostly 0, like triggers",
)


def look_of(row: AnyArray) -> str:
    """What a row looks like: one of three descriptions."""
    head = np.asarray(row[:HEAD_SAMPLES], dtype=np.float64)
    if _rises_evenly(head):
        return _TIME
    return _TRIGGERS if _may_be_codes(head) and looks_like_triggers(row) else _SIGNAL


def _rises_evenly(head: NDArray[np.float64]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(head)
        even = len(steps) > 2 and bool(np.all(np.abs(steps - steps[0]) <= 0.01 * np.abs(steps[0])))
    return even and bool(steps[0] > 0)


def _may_be_codes(values: AnyArray) -> bool:
    whole = bool(np.all(np.isfinite(values)) and np.all(values == np.rint(values)))
    return whole and bool(values.min() >= 0 and values.max() <= MAX_CODE)


def looks_like_triggers(row: AnyArray) -> bool:
    """Whether a row holds whole numbers of 0 and more, mostly 0, which no lead does."""
    values = np.asarray(row)
    return _may_be_codes(values) and bool(0 < np.count_nonzero(values) < 0.5 * values.size)


@dataclass(frozen=True)
class ArrayRows:
    """names: of the leads, in order. trigger: the row of the triggers; None if there is none."""

    names: tuple[str, ...]
    trigger: int | None

    def leads(self, name: str, stated: AnyArray | None) -> tuple[Lead, ...]:
        """stated: a kind for each lead or each row; None for EEG."""
        kinds = ["EEG"] * len(self.names)
        if stated is not None and stated.size:
            kinds = [str(kind).strip().upper() for kind in stated.reshape(-1)]
            kinds = [KINDS.get(kind, kind) for kind in kinds]
        if self.trigger is not None and len(kinds) == len(self.names) + 1:
            del kinds[self.trigger]
        if len(kinds) != len(self.names):
            raise SourceError(f"{name} gives {len(kinds)} kinds for {len(self.names)} leads")
        return tuple(
            Lead(lead, kind, "microvolts" if kind in VOLTAGES else "none")
            for lead, kind in zip(self.names, kinds, strict=True)
        )

    def without_triggers(self, data: AnyArray) -> AnyArray:
        if self.trigger is None:
            return data
        # Usually the last row, so that the leads are a view, not a copy.
        is_last = self.trigger == data.shape[0] - 1
        return data[:-1] if is_last else np.delete(data, self.trigger, axis=0)


def find_rows(
    name: str,
    data: AnyArray,
    names: tuple[str, ...],
    track: str | None,
    options: SourceOptions,
    notes: list[str],
) -> ArrayRows:
    """Assign the rows of data. names: of the leads, if the file or the options state them."""
    rows = data.shape[0]
    if not names and track:
        names = _document_names(track, rows, options, notes)
    if not names:
        return _unnamed(name, data, options, notes)
    if len(names) == rows - 1:
        return ArrayRows(names, rows - 1)
    if len(names) != rows:
        raise SourceError(
            f"{name} names {len(names)} leads for {rows} rows; there must be as many, or one "
            "fewer where the last row holds the triggers"
        )
    trigger_row = _named_row(names, options)
    return ArrayRows(tuple(n for i, n in enumerate(names) if i != trigger_row), trigger_row)


def _named_row(names: tuple[str, ...], options: SourceOptions) -> int | None:
    if options.triggers == "last":
        return len(names) - 1
    if options.triggers in names:
        return names.index(options.triggers)
    found = [i for i, name in enumerate(names) if is_trigger_name(name)]
    return found[-1] if found else None


def check_choice(
    name: str, has_events: bool, names: tuple[str, ...], row: int | None, options: SourceOptions
) -> None:
    """Refuse triggers that the options name and the file does not have."""
    wanted, held = options.triggers, []
    if row is not None:
        held = ["stim", "last", names[row] if row < len(names) else "TRIGGER"]
    if has_events:
        held.append("events")
    if wanted not in (None, "none", *held):
        raise SourceError(
            f"{name} has no {wanted!r} for triggers; it has {', '.join(held) or 'none'}. Use "
            "?events_file=FILE if they are in another file, or ?triggers=none"
        )


def _document_names(
    track: str, rows: int, options: SourceOptions, notes: list[str]
) -> tuple[str, ...]:
    names = leads_of_rows(track, options.batch)
    if rows not in (len(names), len(names) + 1):
        return ()
    order = f"batch {options.batch}" if options.batch else "the document's order"
    orders = track_named(track).lead_orders
    hint = "; for the first batch use ?batch=1" if orders and not options.batch else ""
    notes.append(f"the file names no leads: taken as {track}'s, in {order}{hint}")
    return names


def _unnamed(name: str, data: AnyArray, options: SourceOptions, notes: list[str]) -> ArrayRows:
    """The rows of a matrix that nothing names."""
    looks = [look_of(row) for row in data]
    n_rows, wanted = len(looks), options.triggers
    is_last = n_rows > 1 and wanted != "none" and (wanted == "last" or looks[-1] == _TRIGGERS)
    suspects = {_TIME} if wanted == "none" else {_TIME, _TRIGGERS}
    # Rows that all rise evenly are no time axis beside leads, but somebody's test signal.
    if _SIGNAL in looks and suspects.intersection(looks[:-1] if is_last else looks):
        raise SourceError(_question(name, data, looks))
    if is_last and wanted != "last":
        notes.append("the last row holds whole numbers, mostly 0: taken as the triggers")
    count = n_rows - 1 if is_last else n_rows
    notes.append(f"the file names no leads: they are called ch1 to ch{count}")
    return ArrayRows(tuple(f"ch{k}" for k in range(1, count + 1)), n_rows - 1 if is_last else None)


def _question(name: str, data: AnyArray, looks: list[str]) -> str:
    leads = [f"ch{k}" for k, look in enumerate(looks, 1) if look == _SIGNAL]
    words = {_SIGNAL: "ch", _TIME: "time", _TRIGGERS: "trigger"}
    names = [f"{words[look]}{k}" for k, look in enumerate(looks, 1)]
    codes = [own for own, look in zip(names, looks, strict=True) if look == _TRIGGERS]
    select = f"&select={','.join(leads)}" if leads else ""
    return (
        f"{name} names no rows, and not all of them look like leads: "
        f"{'; '.join(_described(data, looks))}. State what they are, for example "
        f"?leads={','.join(names)}&triggers={codes[0] if codes else 'none'}{select}"
    )


def _described(data: AnyArray, looks: list[str]) -> Iterator[str]:
    """The rows in groups that look alike, with their range."""
    for look, numbers in groupby(range(len(looks)), lambda k: looks[k]):
        rows = list(numbers)
        named = f"row {rows[0] + 1}" if len(rows) == 1 else f"rows {rows[0] + 1} to {rows[-1] + 1}"
        low, high = np.min(data[rows[0] : rows[-1] + 1]), np.max(data[rows[0] : rows[-1] + 1])
        yield f"{named}: {look}, {low:g} to {high:g}"
