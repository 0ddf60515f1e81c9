"""Source options: how a source is read.

The same names are parameters of a URI (`run1.edf?events=T1=11,T2=21&rate=250`), so that a contest file can
hold them in one string; parameters of the URI take precedence.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bci_stream.errors import SourceError
from replay.model.event_map import EventMap
from tracks.registry import TRACKS
from tracks.track import Track


def track_named(name: str) -> Track:
    """The track of that name; raises SourceError if there is none."""
    if name not in TRACKS:
        raise SourceError(f"there is no track {name!r}; the tracks are {', '.join(TRACKS)}")
    return TRACKS[name]


def profile_rate(track: Track) -> float | None:
    """The rate of the profile that the track's rules choose; None where it is the track's own rate."""
    return None if track.rate == TRACKS[track.name].rate else float(track.rate)


def leads_of_rows(track: str, batch: int | None) -> tuple[str, ...]:
    """The leads of files without lead names, in the order of the track's documents."""
    named = track_named(track)
    return named.lead_orders.get(batch or 0, named.leads)


MISSING = ("drop", "zero", "refuse")
NANS = ("refuse", "keep")
GROUPS = ("blocks", "subjects")
_SUBJECT = re.compile(r"(?![.\s])[^/\\\x00-\x1f\x7f]{1,100}")


@dataclass(frozen=True)
class SourceOptions:
    """How a source is read; the defaults change nothing.

    track: fit leads and rate to this track. events: names to codes. rename: old lead name to new.
    select: these leads, in this order. resample: to this rate in Hz.
    missing: leads of the track that the recording lacks: `drop`, `zero` (sent flat) or `refuse`.
    nan: samples that are not finite: `refuse` (the run ends there) or `keep` (they are sent).
    triggers: where they are: the name of a channel, `annotations`, `events`, `stim`, `last` or `none`.
    events_file, angles_file: other files of the recording.
    rate, leads, unit: for files that do not state them.
    stream: which stream of an XDF. variable: which one of a .mat or .npz. batch: 1 or 2 of emotion.
    files: whether the files of a folder are blocks of one subject, or subjects.
    reader: parameters of MNE's reader of this format, see READER_PARAMETERS.
    as_is: do not fit to a track (for inspection).
    """

    track: str | None = None
    events: EventMap = field(default_factory=EventMap)
    rename: Mapping[str, str] = field(default_factory=dict)
    select: tuple[str, ...] | None = None
    resample: float | None = None
    missing: str = "drop"
    nan: str = "refuse"
    subject: str | None = None
    triggers: str | None = None
    events_file: Path | None = None
    angles_file: Path | None = None
    rate: float | None = None
    leads: tuple[str, ...] | None = None
    unit: str | None = None
    stream: str | None = None
    variable: str | None = None
    batch: int | None = None
    files: str | None = None
    reader: Mapping[str, Any] = field(default_factory=dict)
    as_is: bool = False

    @property
    def asked(self) -> tuple[str, ...]:
        """The options, except the track, that differ from the defaults."""
        plain = SourceOptions(track=self.track, as_is=self.as_is, nan=self.nan)
        names = [each.name for each in dataclasses.fields(self)]
        return tuple(name for name in names if getattr(self, name) != getattr(plain, name))

    def with_params(self, params: Mapping[str, str]) -> "SourceOptions":
        """These options, replaced by parameters of a URI where given."""
        read: dict[str, Any] = {name: _read(name, value) for name, value in params.items()}
        given = {name: read.pop(name) for name in params if name in READER_PARAMETERS}
        return dataclasses.replace(self, **read, reader={**self.reader, **given})


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _some_names(text: str) -> tuple[str, ...]:
    names = _names(text)
    if not names:
        raise ValueError("name one or more: C3,Cz,C4")
    return names


def _subject(text: str) -> str:
    if not _SUBJECT.fullmatch(text):
        raise ValueError(
            "subject names are used as file names: 1 to 100 characters, no / or \\, no leading dot"
        )
    return text


def _pairs(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in _names(text)]
    if not all(old.strip() and new.strip() for old, _, new in pairs):
        raise ValueError("write OLD=NEW,OLD=NEW")
    return {old.strip(): new.strip() for old, _, new in pairs}


def _hertz(text: str) -> float:
    rate = float(text)
    if not 0 < rate <= 1e6:
        raise ValueError("a rate is more than 0 and at most 1000000 Hz")
    return rate


def _one_of(*allowed: str) -> Callable[[str], str]:
    def choose(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"choose one of {', '.join(allowed)}")
        return text

    return choose


PARAMETERS: dict[str, Callable[[str], Any]] = {
    "track": lambda text: track_named(text).name,
    "events": EventMap.parse,
    "rename": _pairs,
    "select": _some_names,
    "resample": _hertz,
    "missing": _one_of(*MISSING),
    "nan": _one_of(*NANS),
    "subject": _subject,
    "triggers": str,
    "events_file": Path,
    "angles_file": Path,
    "rate": _hertz,
    "leads": _some_names,
    "unit": _one_of("uV", "mV", "V"),
    "stream": str,
    "variable": str,
    "batch": lambda text: int(_one_of("1", "2")(text)),
    "files": _one_of(*GROUPS),
}


READER_PARAMETERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("eog", "ecg", "emg", "misc", "exclude"), _some_names),
    **dict.fromkeys(("data_format", "date_format", "header", "encoding", "ch_type"), str),
    **dict.fromkeys(("channel_naming", "optode_frame", "montage_units", "uint16_codec"), str),
    "scale": float,
    "sfreq": _hertz,
}
"""Parameters that are passed on to MNE's reader of a format, which documents them."""


def _read(name: str, value: str) -> object:
    parameters = {**PARAMETERS, **READER_PARAMETERS}
    if name not in parameters:
        raise SourceError(
            f"a recording has no parameter {name!r}; it takes {', '.join(sorted(parameters))}"
        )
    try:
        return parameters[name](value)
    except ValueError as error:
        raise SourceError(f"parameter {name}={value!r}: {error}") from error
