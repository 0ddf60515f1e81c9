"""Array rows: which row of a matrix is which lead, and which one holds the triggers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.options import SourceOptions
from replay.readers.array_events import looks_like_triggers
from replay.readers.content import ArraySignal
from replay.readers.lead_kinds import KINDS, VOLTAGES
from replay.track_facts import leads_of_rows

Array = NDArray[Any]
TRIGGER_NAMES = ("trigger", "triggers", "stim", "status", "sti 014", "marker", "markers")


@dataclass(frozen=True)
class Rows:
    """names: of the leads, in order. trigger: the row of the triggers; None where none has them."""

    names: tuple[str, ...]
    trigger: int | None

    def leads(self, name: str, stated: Array | None) -> tuple[Lead, ...]:
        """stated: a kind for each lead, or for each row; EEG where a file says none."""
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

    def without_triggers(self, data: Array) -> Array:
        if self.trigger is None:
            return data
        # They are nearly always the last row: then the leads are a view, not a copy.
        is_last = self.trigger == data.shape[0] - 1
        return data[:-1] if is_last else np.delete(data, self.trigger, axis=0)


def scaled_rows(rows: Array, scales: Sequence[float]) -> ArraySignal:
    """Rows as a signal, each times its own scale; without a copy where all have the same."""
    if len(set(scales)) == 1:
        return ArraySignal(rows, scales[0])
    return ArraySignal(rows * np.array(scales, dtype=np.float64)[:, None])


def find_rows(
    name: str,
    data: Array,
    names: tuple[str, ...],
    track: str | None,
    options: SourceOptions,
    notes: list[str],
) -> Rows:
    """What the rows of data are; names: of the leads, as far as the file or the user says."""
    rows = data.shape[0]
    if not names and track:
        names = _document_names(track, rows, options, notes)
    if not names:
        trigger = rows > 1 and (options.triggers == "last" or looks_like_triggers(data[-1]))
        trigger = trigger and options.triggers != "none"
        if trigger and options.triggers != "last":
            notes.append("the last row holds whole numbers, mostly 0: taken as the triggers")
        count = rows - 1 if trigger else rows
        notes.append(f"the file names no leads: they are called ch1 to ch{count}")
        return Rows(tuple(f"ch{k}" for k in range(1, count + 1)), rows - 1 if trigger else None)
    if len(names) == rows - 1:
        return Rows(names, rows - 1)
    if len(names) != rows:
        raise SourceError(
            f"{name} names {len(names)} leads for {rows} rows; there must be as many, or one "
            "fewer where the last row holds the triggers"
        )
    trigger_row = _named_row(names, options)
    return Rows(tuple(n for i, n in enumerate(names) if i != trigger_row), trigger_row)


def _named_row(names: tuple[str, ...], options: SourceOptions) -> int | None:
    if options.triggers == "last":
        return len(names) - 1
    if options.triggers in names:
        return names.index(options.triggers)
    found = [i for i, name in enumerate(names) if name.lower() in TRIGGER_NAMES]
    return found[-1] if found else None


def check_choice(
    name: str, has_events: bool, names: tuple[str, ...], row: int | None, options: SourceOptions
) -> None:
    """Refuse triggers that the options name and the file has not."""
    wanted, held = options.triggers, []
    if row is not None:
        held = ["stim", "last", names[row] if row < len(names) else "TRIGGER"]
    if has_events:
        held.append("events")
    if wanted not in (None, "none", *held):
        raise SourceError(
            f"{name} has no {wanted!r} for triggers; it has {', '.join(held) or 'none'}. Say "
            "?events_file=FILE where they stand in a file of their own, or ?triggers=none"
        )


def _document_names(
    track: str, rows: int, options: SourceOptions, notes: list[str]
) -> tuple[str, ...]:
    names = leads_of_rows(track, options.batch)
    if rows not in (len(names), len(names) + 1):
        return ()
    order = f"batch {options.batch}" if options.batch else "the document's order"
    hint = "; for the first batch say ?batch=1" if track == "emotion" and not options.batch else ""
    notes.append(f"the file names no leads: taken as {track}'s, in {order}{hint}")
    return names
