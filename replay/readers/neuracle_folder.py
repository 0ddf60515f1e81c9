"""A Neuracle folder: data.bdf (or data.1.bdf, ...) with the events in evt.bdf."""

import re
from pathlib import Path
from typing import Any

from bci_stream.errors import SourceError
from replay.options import SourceOptions
from replay.readers.content import Content
from replay.readers.events_table import EventsTable, read_events_table
from replay.readers.guard import reading

_PIECE = re.compile(r"data(?:\.(\d+))?\.bdf", re.IGNORECASE)


def is_neuracle_folder(folder: Path) -> bool:
    return bool(_pieces(folder)) and bool(_events_file(folder))


def read_neuracle_folder(folder: Path, options: SourceOptions) -> Content:
    """The pieces of a recording, one after the other, with its events."""
    import mne

    from replay.readers.edf_raw import LazyBdf
    from replay.readers.mne_file import content_of_raw

    pieces = _pieces(folder)
    with reading(str(folder), "Neuracle BDF") as notes:
        raws = [LazyBdf(str(piece), verbose="warning") for piece in pieces]
        raw = raws[0] if len(raws) == 1 else mne.concatenate_raws(raws, verbose="warning")
    if options.events_file:
        table: EventsTable | None = read_events_table(options.events_file)
    else:
        table = _read_events(folder) if options.triggers in (None, "events") else None
    return content_of_raw(raw, folder.name, "Neuracle", options, table=table, notes=tuple(notes))


def _pieces(folder: Path) -> list[Path]:
    """data.bdf, data.1.bdf, data.2.bdf ... in the order of their numbers, also in subfolders."""
    found = [
        (int(match[1] or 0), path)
        for path in sorted([*folder.glob("*.bdf"), *folder.glob("*/*.bdf")])
        if (match := _PIECE.fullmatch(path.name))
    ]
    return [path for _, path in sorted(found)]


def _events_file(folder: Path) -> Path | None:
    found = sorted([*folder.glob("evt.bdf"), *folder.glob("*/evt.bdf")])
    return found[0] if found else None


def _read_events(folder: Path) -> EventsTable:
    """Onsets are the data's own latency: the two headers' start times may differ by a second."""
    import mne

    path = _events_file(folder)
    if path is None:
        raise SourceError(f"{folder} has no evt.bdf")
    with reading(str(path), "Neuracle events"):
        annotations: Any = mne.read_annotations(str(path))
        return [
            (float(onset), str(text))
            for onset, text in zip(annotations.onset, annotations.description, strict=True)
        ]
