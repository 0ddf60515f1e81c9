"""The markers of an XDF file: of all marker streams, each on the sample that is nearest to its time."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError, shorten_list
from replay.model.event_map import EventMap
from replay.model.events import Mark
from replay.model.options import SourceOptions

XdfStream = dict[str, Any]

_MARKER_TYPES = ("marker", "stim", "trigger", "event")
_WHOLE_WITHIN = 1e-3
JITTER_S = 0.01
"""Tolerance between the clocks of two streams, in addition to half a sample."""

SampleFinder = Callable[[float], int | None]


@dataclass(frozen=True)
class FoundMarks:
    """Marks, and notes about markers that were left out."""

    marks: list[Mark]
    notes: tuple[str, ...] = ()


def text_of(stream: XdfStream, key: str) -> str:
    """A text in the header of a stream; empty if it is missing."""
    return str((stream["info"].get(key) or [""])[0] or "")


def is_signal(stream: XdfStream) -> bool:
    """Whether a stream has numbers at a nominal rate; any other stream can be used as triggers."""
    return text_of(stream, "channel_format") != "string" and bool(
        float(text_of(stream, "nominal_srate"))
    )


def find_markers(
    name: str,
    times: NDArray[np.float64],
    rate: float,
    streams: list[XdfStream],
    options: SourceOptions,
) -> FoundMarks:
    """The markers of all marker streams, or of the one that is wanted, on the signal's samples.

    times, rate: of these samples.
    """
    sample_at = _sample_finder(times, rate)
    others, rules = [stream for stream in streams if not is_signal(stream)], options.events
    if options.triggers is not None:
        return _placed(sample_at, _named(name, others, options.triggers), rules)
    others = [stream for stream in others if not _holds_messages(stream)]
    found = _placed(sample_at, [stream for stream in others if _holds_markers(stream)], rules)
    return FoundMarks(found.marks, (*_about_data(others), *found.notes))


def _named(name: str, streams: list[XdfStream], wanted: str) -> list[XdfStream]:
    named = [stream for stream in streams if text_of(stream, "name") == wanted]
    if not named:
        held = ", ".join(_names(streams)) or "none"
        raise SourceError(
            f"{name} has neither a channel nor a marker stream {wanted!r} for triggers; its marker "
            f"streams: {held}"
        )
    return named


def _holds_messages(stream: XdfStream) -> bool:
    """Whether a stream holds messages of replay, judge and teams, which are recorded with the rest."""
    return text_of(stream, "source_id").startswith("bci/") and text_of(stream, "type") != "Markers"


def _holds_markers(stream: XdfStream) -> bool:
    """Whether an irregular stream holds codes or texts, and not data such as gaze."""
    form, kind = text_of(stream, "channel_format"), text_of(stream, "type").lower()
    one_whole_number = form.startswith("int") and text_of(stream, "channel_count") == "1"
    return form == "string" or one_whole_number or any(word in kind for word in _MARKER_TYPES)


def _about_data(streams: list[XdfStream]) -> tuple[str, ...]:
    data = [s for s in streams if len(s["time_stamps"]) and not _holds_markers(s)]
    if not data:
        return ()
    return (
        f"irregular streams that are no marker streams are left out of the triggers: "
        f"{shorten_list(_names(data))}; ?triggers=NAME takes one",
    )


def _names(streams: list[XdfStream]) -> list[str]:
    return [repr(text_of(stream, "name")) for stream in streams]


def _placed(sample_at: SampleFinder, streams: list[XdfStream], rules: EventMap) -> FoundMarks:
    markers = _in_time(streams)
    placed = [(number, sample_at(time), name) for time, number, name in markers]
    numbered = [(number, _mark(at, name)) for number, at, name in placed if at is not None]
    marks = _without_repeats(_with_codes(numbered, streams, rules))
    left_out = sum(at is None for _, at, _ in placed)
    note = (
        f"{left_out} of {len(markers)} markers lie outside the signal, or in a gap of it, and are "
        "left out"
    )
    return FoundMarks(sorted(marks, key=lambda mark: mark.sample), (note,) if left_out else ())


def _mark(sample: int, text: str) -> Mark:
    """A marker's name ends at a tab, behind which a HED string may stand."""
    name, tab, _ = text.partition("\t")
    return Mark(sample, name, text if tab else "")


NumberedMark = tuple[int, Mark]
"""(number of its stream, mark)"""


def _with_codes(
    marks: list[NumberedMark], streams: list[XdfStream], rules: EventMap
) -> list[NumberedMark]:
    """Texts and codes of one replay, which are two streams, as one mark each.

    Its name is the text if a rule names it, else the code.
    """
    ids = [text_of(stream, "source_id") for stream in streams]
    partner = {number: mirror_of(own, ids) for number, own in enumerate(ids)}
    codes: dict[tuple[int, int], list[Mark]] = {}
    for number, mark in marks:
        if number in partner.values():
            codes.setdefault((number, mark.sample), []).append(mark)
    joined = []
    for number, mark in marks:
        mirror = partner[number]
        waiting = codes.get((mirror, mark.sample)) if mirror is not None else None
        if waiting:
            code = waiting.pop(0)
            name = mark.name if rules.names(mark.name) else code.name
            mark = Mark(mark.sample, name, mark.text or mark.name)
        if number not in partner.values():
            joined.append((number, mark))
    alone = [(number, mark) for (number, _), left in codes.items() for mark in left]
    return joined + alone


def mirror_of(source_id: str, ids: list[str]) -> int | None:
    """The number of the stream that repeats a replay's markers as codes; None if there is none."""
    codes = source_id.replace("/markers/", "/codes/", 1)
    is_ours = source_id.startswith("bci/") and codes != source_id
    return ids.index(codes) if is_ours and codes in ids else None


def _in_time(streams: list[XdfStream]) -> list[tuple[float, int, str]]:
    """(time, number of its stream, name) of all markers; in the order of the file at one time."""
    markers = [
        (float(time), number, _marker_name(value))
        for number, stream in enumerate(streams)
        for time, value in zip(stream["time_stamps"], stream["time_series"], strict=True)
    ]
    return sorted(markers, key=lambda marker: marker[0])


def _without_repeats(marks: Iterable[tuple[int, Mark]]) -> list[Mark]:
    """Markers that two streams repeat (as texts and as numbers) on one sample are one event."""
    in_stream: Counter[tuple[int, Mark]] = Counter()
    taken: Counter[Mark] = Counter()
    kept = []
    for number, mark in marks:
        in_stream[number, mark] += 1
        if in_stream[number, mark] > taken[mark]:
            taken[mark] += 1
            kept.append(mark)
    return kept


def _sample_finder(times: NDArray[np.float64], rate: float) -> SampleFinder:
    """A function from a time to the sample nearest to it; None where no sample is near."""
    # Sorted, because a clock may have been set back. Rounded, because regression leaves differences far below
    # a microsecond; of equal times the first sample is used.
    stamps, samples = np.unique(np.round(times, 6), return_index=True)
    near_s = 0.5 / rate + JITTER_S

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
