"""Events tables: files that list the events of a recording (.tsv, .csv, -eve.fif)."""

import csv
import math
from pathlib import Path

from bci_stream.errors import SourceError
from replay.model.event_map import EventMap
from replay.model.events import Mark
from replay.model.options import SourceOptions
from replay.readers.guard import reading

EventsTable = list[tuple[float | int, str]]
"""(onset in seconds, or a sample number of the acquisition where it is an int; name)."""

_NAME_COLUMNS = ("value", "trial_type", "description", "code", "name")


def events_beside(path: Path, options: SourceOptions) -> EventsTable | None:
    """The table that the options name, or the one beside the recording; None without either."""
    if options.events_file:
        return read_events_table(options.events_file, options.events)
    if options.triggers not in (None, "events"):
        return None
    for candidate in _candidates(path):
        if candidate.is_file():
            return read_events_table(candidate, options.events)
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
        return [(int(sample), str(int(code))) for sample, _, code in events]


def _read_columns(path: Path, rules: EventMap) -> EventsTable:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, delimiter=separator)
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        rows = list(reader)
    if rows and "onset" not in rows[0]:
        raise SourceError(f"{path} has no column `onset`: it has {', '.join(map(str, rows[0]))}")
    return [(_onset(path, row["onset"]), _name_of(row, rules)) for row in rows]


def _onset(path: Path, text: str) -> float:
    onset = float(text)
    if not math.isfinite(onset):
        raise SourceError(f"{path}: an onset is {text!r}; it must be a number of seconds")
    return onset


def _name_of(row: dict[str, str], rules: EventMap) -> str:
    """The name that has a rule, else the first name that is not empty."""
    texts = [(row.get(column) or "").strip() for column in _NAME_COLUMNS]
    names = [text for text in texts if text not in ("", "n/a")]
    return next(filter(rules.names, names), names[0] if names else "n/a")


def marks_of(table: EventsTable, rate: float, first_sample: int) -> list[Mark]:
    """The events with samples counted from the start of the file. first_sample: of the acquisition."""
    return [
        Mark(onset - first_sample if isinstance(onset, int) else round(onset * rate), name)
        for onset, name in table
    ]
