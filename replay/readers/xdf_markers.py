"""XDF markers: which streams hold them, and the sample of the signal that each one belongs to."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bci_stream.errors import SourceError
from replay.events import Mark
from replay.listed import listed

Stream = dict[str, Any]

_MARKER_TYPES = ("marker", "stim", "trigger", "event")
_WHOLE_WITHIN = 1e-3
JITTER_S = 0.01
"""How far two streams' clocks may be apart, besides half a sample."""


@dataclass(frozen=True)
class FoundMarks:
    """Marks, and what is to be said about those that are none."""

    marks: list[Mark]
    notes: tuple[str, ...] = ()


def text_of(stream: Stream, key: str) -> str:
    """What a stream's header says; empty where it says nothing."""
    return str((stream["info"].get(key) or [""])[0] or "")


def is_signal(stream: Stream) -> bool:
    """Numbers at a steady rate; any other stream can be asked for as triggers."""
    return text_of(stream, "channel_format") != "string" and bool(
        float(text_of(stream, "nominal_srate"))
    )


def find_markers(
    name: str, signal: Stream, streams: list[Stream], wanted: str | None
) -> FoundMarks:
    """The markers of all marker streams, or of the one that is wanted, on the signal's samples."""
    others = [stream for stream in streams if not is_signal(stream)]
    if wanted is not None:
        return _placed(signal, _named(name, others, wanted))
    found = _placed(signal, [stream for stream in others if _holds_markers(stream)])
    return FoundMarks(found.marks, (*_about_data(others), *found.notes))


def _named(name: str, streams: list[Stream], wanted: str) -> list[Stream]:
    named = [stream for stream in streams if text_of(stream, "name") == wanted]
    if not named:
        held = ", ".join(_names(streams)) or "none"
        raise SourceError(
            f"{name} has neither a channel nor a marker stream {wanted!r} for triggers; its marker "
            f"streams: {held}"
        )
    return named


def _holds_markers(stream: Stream) -> bool:
    """What comes now and then may be data too, such as gaze: only codes or texts are markers."""
    form, kind = text_of(stream, "channel_format"), text_of(stream, "type").lower()
    one_whole_number = form.startswith("int") and text_of(stream, "channel_count") == "1"
    return form == "string" or one_whole_number or any(word in kind for word in _MARKER_TYPES)


def _about_data(streams: list[Stream]) -> tuple[str, ...]:
    data = [s for s in streams if len(s["time_stamps"]) and not _holds_markers(s)]
    if not data:
        return ()
    return (
        f"irregular streams that are no marker streams are left out of the triggers: "
        f"{listed(_names(data))}; ?triggers=NAME takes one",
    )


def _names(streams: list[Stream]) -> list[str]:
    return [repr(text_of(stream, "name")) for stream in streams]


def _placed(signal: Stream, streams: list[Stream]) -> FoundMarks:
    sample_at = _sample_finder(signal)
    markers = _in_time(streams)
    placed = [(number, sample_at(time), name) for time, number, name in markers]
    marks = _told_once((number, Mark(at, name)) for number, at, name in placed if at is not None)
    left_out = sum(at is None for _, at, _ in placed)
    note = (
        f"{left_out} of {len(markers)} markers lie outside the signal, or in a gap of it, and are "
        "left out"
    )
    return FoundMarks(sorted(marks, key=lambda mark: mark.sample), (note,) if left_out else ())


def _in_time(streams: list[Stream]) -> list[tuple[float, int, str]]:
    """(time, number of its stream, name) of all markers; those of one time as they stand in the file."""
    markers = [
        (float(time), number, _marker_name(value))
        for number, stream in enumerate(streams)
        for time, value in zip(stream["time_stamps"], stream["time_series"], strict=True)
    ]
    return sorted(markers, key=lambda marker: marker[0])


def _told_once(marks: Iterable[tuple[int, Mark]]) -> list[Mark]:
    """What two streams tell alike of one sample (as texts, and as numbers) is one event, not two."""
    told: Counter[tuple[int, Mark]] = Counter()
    times: Counter[Mark] = Counter()
    kept = []
    for number, mark in marks:
        told[number, mark] += 1
        if told[number, mark] > times[mark]:
            times[mark] += 1
            kept.append(mark)
    return kept


def _sample_finder(signal: Stream) -> Callable[[float], int | None]:
    """What finds the sample whose stamp is nearest to a time: None where no sample is near."""
    times = np.asarray(signal["time_stamps"], dtype=np.float64)
    # Sorted, since a clock may have been set back. Rounded, since pyxdf's line through the stamps
    # leaves traces far below a microsecond: a time that comes twice is that of its first sample.
    stamps, samples = np.unique(np.round(times, 6), return_index=True)
    near_s = 0.5 / float(text_of(signal, "nominal_srate")) + JITTER_S

    def sample_at(time: float) -> int | None:
        right = int(np.searchsorted(stamps, time))
        neighbours = range(max(right - 1, 0), min(right + 1, len(stamps)))
        away_s, sample = min((round(abs(stamps[i] - time), 6), int(samples[i])) for i in neighbours)
        return sample if away_s <= near_s else None

    return sample_at


def _marker_name(value: Sequence[Any]) -> str:
    first = value[0] if np.size(value) else ""
    if isinstance(first, np.floating) and math.isfinite(first):
        nearest = round(float(first))
        return str(nearest) if abs(float(first) - nearest) < _WHOLE_WITHIN else str(first)
    return str(first)
