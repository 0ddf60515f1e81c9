"""Events tables: files that list the events of a recording (.tsv, .csv, -eve.fif)."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bci_stream.errors import SourceError
from replay.model.event_map import EventMap, code_in
from replay.model.events import Mark
from replay.model.options import SourceOptions
from replay.readers.bids import is_run
from replay.readers.guard import reading


class TableEvent(NamedTuple):
    """An event of a table.

    onset: in seconds, or a sample number of the acquisition where it is an int. text: what is sent as its
    marker, if not the name.
    """

    onset: float | int
    name: str
    text: str = ""


EventsTable = list[TableEvent]

_NAME_COLUMNS = ("value", "trial_type", "description", "code", "name")
_HED = "HED"
"""The column of Hierarchical Event Descriptors in BIDS."""


@dataclass(frozen=True)
class TableBeside:
    """The events table of a recording.

    first: it takes precedence over events in the recording itself: it was asked for, or it is the place that
    the format has for events (`*_events.tsv` of a BIDS run, `-eve.fif` of a FIF).
    """

    name: str
    read: Callable[[], EventsTable]
    first: bool


def events_beside(path: Path, options: SourceOptions) -> TableBeside | None:
    """The table that the options name, or the one beside the recording; None without either."""
    if options.events_file:
        read = partial(read_events_table, options.events_file, options.events)
        return TableBeside(options.events_file.name, read, first=True)
    if options.triggers not in (None, "events"):
        return None
    for candidate in _candidates(path):
        if candidate.is_file():
            belongs = candidate.suffix == ".tsv" if is_run(path) else path.suffix.lower() == ".fif"
            read = partial(read_events_table, candidate, options.events)
            return TableBeside(candidate.name, read, options.triggers == "events" or belongs)
    if options.triggers == "events":
        names = ", ".join(candidate.name for candidate in _candidates(path))
        raise SourceError(f"{path.name}: there is no events file beside it (looked for {names})")
    return None


def _candidates(path: Path) -> list[Path]:
    stem = path.stem
    base = stem.rpartition("_")[0] if stem.endswith(("_eeg", "_ieeg", "_meg")) else stem
    plain = stem.removesuffix("-raw").removesuffix("_raw")
    names = (f"{base}_events.tsv", f"{plain}-eve.fif", f"{plain}_eve.fif", f"{stem}-eve.fif")
    return [path.with_name(name) for name in dict.fromkeys(names)]


def read_events_table(path: Path, rules: EventMap | None = None) -> EventsTable:
    """Read a `.tsv` or `.csv` with a column `onset` in seconds, or MNE's events in a `.fif`.

    rules: decide which name of an event is used, where a table has several columns of names.
    """
    if path.suffix.lower() in (".tsv", ".csv"):
        with reading(str(path), "events table"):
            return _read_columns(path, rules or EventMap())
    import mne

    with reading(str(path), "FIF events"):
        events = mne.read_events(str(path), verbose="error")
        return [TableEvent(int(sample), str(int(code))) for sample, _, code in events]


def _read_columns(path: Path, rules: EventMap) -> EventsTable:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, delimiter=separator)
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        rows = list(reader)
    if rows and "onset" not in rows[0]:
        raise SourceError(f"{path} has no column `onset`: it has {', '.join(map(str, rows[0]))}")
    return [
        TableEvent(_onset(path, row["onset"]), _name_of(row, rules), _text_of(row)) for row in rows
    ]


def _onset(path: Path, text: str) -> float:
    try:
        onset = float(text)
    except (TypeError, ValueError):  # TypeError: the row has no such column
        onset = math.nan
    if not math.isfinite(onset):
        raise SourceError(f"{path}: an onset is {text!r}; it must be a number of seconds")
    return onset


def _name_of(row: dict[str, str], rules: EventMap) -> str:
    """The name that has a rule, else the first name that is not empty."""
    names = _cells(row, _NAME_COLUMNS)
    return next(filter(rules.names, names), names[0] if names else "n/a")


def _text_of(row: dict[str, str]) -> str:
    """The first name that is not a number, then a tab and the HED string, if there is one."""
    names = _cells(row, _NAME_COLUMNS)
    words = next((name for name in names if code_in(name) is None), "")
    described = _cells(row, (_HED,))
    return "\t".join([words or next(iter(names), ""), *described]) if described else words


def _cells(row: dict[str, str], columns: Sequence[str]) -> list[str]:
    texts = [(row.get(column) or "").strip() for column in columns]
    return [text for text in texts if text not in ("", "n/a")]


def marks_of(table: EventsTable, rate: float, first_sample: int) -> list[Mark]:
    """The events with samples counted from the start of the file. first_sample: of the acquisition."""
    return [
        Mark(onset - first_sample if isinstance(onset, int) else round(onset * rate), name, text)
        for onset, name, text in table
    ]
