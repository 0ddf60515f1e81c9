"""A Neuracle folder: data.bdf (or data.1.bdf, ...) with the events in evt.bdf.

Several data files are one recording, also without evt.bdf; a single data.bdf without it is a plain file.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.events_table import EventsTable, TableBeside, TableEvent, events_beside
from replay.readers.formats import check_recording
from replay.readers.guard import reading

_PIECE = re.compile(r"data(?:\.(\d+))?\.bdf", re.IGNORECASE)
_WITHOUT_EVENTS = (
    "there is no evt.bdf beside its data: it has no events but those in the data files"
)


def is_neuracle_folder(folder: Path) -> bool:
    pieces = _pieces(folder)
    return bool(pieces) and (len(pieces) > 1 or _events_file(folder, pieces) is not None)


def read_neuracle_folder(folder: Path, options: SourceOptions) -> Content:
    """The data files of a recording joined into one signal, with its events."""
    import mne

    from replay.readers.mne.content import content_of_raw
    from replay.readers.mne.edf import open_edf, raw_edf, read_edf_header
    from replay.readers.mne.raw_file import RawFile, group_by_rate

    pieces = _pieces(folder)
    for piece in pieces:
        check_recording(piece)
    events_file = _events_file(folder, pieces)
    with reading(str(folder), "Neuracle BDF") as notes, mne.use_log_level("warning"):
        headers = [header for piece in pieces if (header := read_edf_header(piece))]
        files = [raw_edf(header) for header in headers]
        for file, piece in zip(files, pieces, strict=True):
            if file.times:
                raise SourceError(
                    f"{piece}: its records do not follow each other (BDF+D), so events of evt.bdf have no "
                    "place in it; play it as a file"
                )
        counts = {header.channels.counts for header in headers}
        if len(counts) > 1:
            raise SourceError(f"{folder}: the rates of its channels differ between its data files")

        def joined(include: list[str] | None = None, _: int = 0) -> Any:
            raws = [open_edf(header, include, crop=True) for header in headers]
            return raws[0] if len(raws) == 1 else mne.concatenate_raws(raws)

        raw = joined()
        groups = group_by_rate(raw, folder.name, headers[0].channels.counts, joined)
    return content_of_raw(
        RawFile(raw, folder.name, tuple(groups), headers[0].channels),
        "Neuracle",
        options,
        table=_events(folder, events_file, options),
        notes=(*notes, *(() if events_file else (_WITHOUT_EVENTS,))),
    )


def _pieces(folder: Path) -> list[Path]:
    """data.bdf, data.1.bdf, data.2.bdf ... in numerical order, in the folder or in its only subfolder.

    Data files in several subfolders are several recordings, and give an empty list.
    """
    found = [
        (int(match[1] or 0), path)
        for path in sorted([*folder.glob("*.bdf"), *folder.glob("*/*.bdf")])
        if (match := _PIECE.fullmatch(path.name))
    ]
    places = {path.parent for _, path in found}
    if folder in places:
        places = {folder}
    return [path for _, path in sorted(found) if path.parent in places] if len(places) == 1 else []


def _events(folder: Path, path: Path | None, options: SourceOptions) -> TableBeside | None:
    if options.events_file:
        return events_beside(folder, options)
    if options.triggers == "events" and path is None:
        raise SourceError(f"{folder} has no evt.bdf")
    if path is None or options.triggers not in (None, "events"):
        return None
    return TableBeside(path.name, partial(_read_events, path), first=True)


def _events_file(folder: Path, pieces: list[Path]) -> Path | None:
    places = [folder, *(piece.parent for piece in pieces[:1])]
    found = [place / "evt.bdf" for place in places if (place / "evt.bdf").is_file()]
    return found[0] if found else None


def _read_events(path: Path) -> EventsTable:
    """Onsets in seconds of the data; the start times in the two headers may differ by a second."""
    import mne

    check_recording(path)
    with reading(str(path), "Neuracle events"):
        _check_complete(path)
        annotations: Any = mne.read_annotations(str(path))
        return [
            TableEvent(float(onset), str(text))
            for onset, text in zip(annotations.onset, annotations.description, strict=True)
        ]


def _check_complete(path: Path) -> None:
    """Refuse a file that is cut off, of which MNE would read the events that are left."""
    from replay.readers.mne.edf import read_edf_header

    header, size = read_edf_header(path), path.stat().st_size
    if header is None or (not header.is_unclosed and size < header.n_bytes):
        expected = "a header" if header is None else f"{header.n_bytes} bytes"
        raise SourceError(
            f"{path} is cut off: expected {expected}, it has {size} bytes. Copy it again, or remove it from "
            "the folder to play the data without events"
        )
