"""A Neuracle folder: data.bdf (or data.1.bdf, ...) with the events in evt.bdf.

Several pieces are one recording also without evt.bdf, which may have been lost; a single data.bdf
without it is a file like any other.
"""

import re
from pathlib import Path
from typing import Any

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.events_table import EventsTable, read_events_table
from replay.readers.formats import check_recording
from replay.readers.guard import reading
from replay.readers.mne.edf import read_edf_header

_PIECE = re.compile(r"data(?:\.(\d+))?\.bdf", re.IGNORECASE)
_WITHOUT_EVENTS = "there is no evt.bdf beside its data: it has no events but those in them"


def is_neuracle_folder(folder: Path) -> bool:
    pieces = _pieces(folder)
    return bool(pieces) and (len(pieces) > 1 or _events_file(folder, pieces) is not None)


def read_neuracle_folder(folder: Path, options: SourceOptions) -> Content:
    """The pieces of a recording, one after the other, with its events."""
    import mne

    from replay.readers.mne.edf import LazyBdf
    from replay.readers.mne.mne_file import content_of_raw
    from replay.readers.mne.raw_file import RawFile

    pieces = _pieces(folder)
    events_file = _events_file(folder, pieces)
    with reading(str(folder), "Neuracle BDF") as notes:
        raws = [LazyBdf(str(piece), verbose="warning") for piece in pieces]
        for opened, piece in zip(raws, pieces, strict=True):
            if RawFile.of(opened, piece.name, "BDF", piece).times:
                raise SourceError(
                    f"{piece}: its records do not follow each other (BDF+D), so that nothing tells where "
                    "the events of evt.bdf stand; play it as a file"
                )
        raw = raws[0] if len(raws) == 1 else mne.concatenate_raws(raws, verbose="warning")
    return content_of_raw(
        raw,
        folder.name,
        "Neuracle",
        options,
        table=_events(folder, events_file, options),
        notes=(*notes, *(() if events_file else (_WITHOUT_EVENTS,))),
    )


def _pieces(folder: Path) -> list[Path]:
    """data.bdf, data.1.bdf, data.2.bdf ... in the order of their numbers; else those of its one subfolder.

    Those of several subfolders are several recordings: then there is none here.
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


def _events(folder: Path, path: Path | None, options: SourceOptions) -> EventsTable | None:
    if options.events_file:
        return read_events_table(options.events_file, options.events)
    if options.triggers == "events" and path is None:
        raise SourceError(f"{folder} has no evt.bdf")
    return _read_events(path) if path and options.triggers in (None, "events") else None


def _events_file(folder: Path, pieces: list[Path]) -> Path | None:
    places = [folder, *(piece.parent for piece in pieces[:1])]
    found = [place / "evt.bdf" for place in places if (place / "evt.bdf").is_file()]
    return found[0] if found else None


def _read_events(path: Path) -> EventsTable:
    """Onsets are the data's own latency: the two headers' start times may differ by a second."""
    import mne

    check_recording(path)
    with reading(str(path), "Neuracle events"):
        _check_whole(path)
        annotations: Any = mne.read_annotations(str(path))
        return [
            (float(onset), str(text))
            for onset, text in zip(annotations.onset, annotations.description, strict=True)
        ]


def _check_whole(path: Path) -> None:
    """MNE reads as many events as are left of a file that was cut off, and says nothing."""
    header, size = read_edf_header(path), path.stat().st_size
    if header is None or (not header.is_unclosed and size < header.n_bytes):
        told = "its header" if header is None else f"{header.n_bytes} bytes"
        raise SourceError(
            f"{path} is cut off: {told} should be there, it has {size} bytes. Copy it anew, or take it "
            "out of the folder to play the data without events"
        )
