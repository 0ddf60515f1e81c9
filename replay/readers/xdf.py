"""An XDF file: one signal stream, clock-corrected, with the markers of all its marker streams.

pyxdf splits a stream into segments where the clock was reset or samples were lost; each segment is a block.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyxdf

from bci_stream.errors import SourceError, shorten_list
from bci_stream.packet import Lead, is_trigger_name
from replay.model.event_map import EventMap, code_in, describe_map
from replay.model.events import KnownEvents, Mark
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.model.units import VOLTAGES, kind_called, microvolts
from replay.readers.arrays.layout import marks_of_row, scaled_rows
from replay.readers.events_table import marks_of, read_events_table
from replay.readers.guard import reading


@dataclass(frozen=True)
class XdfChannel:
    """A lead, and the factor from stored values to its unit.

    stated_unit: the unit in the header; empty if there is none.
    """

    lead: Lead
    scale: float
    stated_unit: str

    @property
    def odd_unit(self) -> bool:
        """Whether the kind is a voltage and the header states no unit of voltage."""
        return self.lead.kind in VOLTAGES and microvolts(self.stated_unit) is None


def channels_of(stream: dict[str, Any]) -> list[XdfChannel]:
    """The channels of a stream; they are numbered if the header does not describe them."""
    count = int(stream["info"]["channel_count"][0])
    described = _descriptions(stream)
    if len(described) != count:
        described = [{} for _ in range(count)]
    return [_channel(number, entry) for number, entry in enumerate(described, 1)]


def _descriptions(stream: dict[str, Any]) -> list[dict[str, Any]]:
    desc = (stream["info"].get("desc") or [None])[0] or {}
    channels = (desc.get("channels") or [None])[0] or {}
    return [entry or {} for entry in channels.get("channel") or []]


def _channel(number: int, entry: dict[str, Any]) -> XdfChannel:
    name = _text(entry, "label") or f"ch{number}"
    unit = _text(entry, "unit")
    kind = _kind(name, _text(entry, "type"), unit)
    scale = microvolts(unit) if unit else 1.0
    if kind not in VOLTAGES or scale is None:
        return XdfChannel(Lead(name, kind, unit or "none", _position(entry)), 1.0, unit)
    return XdfChannel(Lead(name, kind, "microvolts", _position(entry)), scale, unit)


def _kind(name: str, stated: str, unit: str) -> str:
    if is_trigger_name(name):
        return "STIM"
    if stated:
        return kind_called(stated)
    return "EEG" if not unit or microvolts(unit) is not None else "MISC"


def _text(entry: dict[str, Any], key: str) -> str:
    return str((entry.get(key) or [""])[0] or "").strip()


def _position(entry: dict[str, Any]) -> tuple[float, float, float] | None:
    """`location/{X,Y,Z}`, in millimetres by XDF's convention, in metres."""
    place = (entry.get("location") or [None])[0] or {}
    texts = [_text(place, axis) for axis in "XYZ"]
    if not all(texts):
        return None
    x, y, z = (float(text) / 1000 for text in texts)
    return x, y, z


XdfStream = dict[str, Any]

_MARKER_TYPES = ("marker", "stim", "trigger", "event")
_WHOLE_WITHIN = 1e-3
JITTER_S = 0.01
"""Tolerance between the clocks of two streams, in addition to half a sample."""


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
    name: str, signal: XdfStream, streams: list[XdfStream], options: SourceOptions
) -> FoundMarks:
    """The markers of all marker streams, or of the one that is wanted, on the signal's samples."""
    others, rules = [stream for stream in streams if not is_signal(stream)], options.events
    if options.triggers is not None:
        return _placed(signal, _named(name, others, options.triggers), rules)
    others = [stream for stream in others if not _holds_messages(stream)]
    found = _placed(signal, [stream for stream in others if _holds_markers(stream)], rules)
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


def _placed(signal: XdfStream, streams: list[XdfStream], rules: EventMap) -> FoundMarks:
    sample_at = _sample_finder(signal)
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
    partner = {number: _mirror(own, ids) for number, own in enumerate(ids)}
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


def _mirror(source_id: str, ids: list[str]) -> int | None:
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


def _sample_finder(signal: XdfStream) -> Callable[[float], int | None]:
    """A function from a time to the sample nearest to it; None where no sample is near."""
    times = np.asarray(signal["time_stamps"], dtype=np.float64)
    # Sorted, because a clock may have been set back. Rounded, because pyxdf's regression leaves differences
    # far below a microsecond; of equal times the first sample is used.
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


def read_xdf(path: Path, options: SourceOptions) -> Content:
    """Read the one signal stream of an XDF, or the one that the options name."""
    with reading(str(path), "XDF", logger="pyxdf") as notes:
        streams, _ = pyxdf.load_xdf(str(path), verbose=False)
        content = _content(path, _choose(path.name, streams, options), streams, options)
    return dataclasses.replace(content, notes=(*notes, *content.notes))


def _choose(name: str, streams: list[XdfStream], options: SourceOptions) -> XdfStream:
    signals = [s for s in streams if is_signal(s)]
    if options.stream:
        named = [s for s in signals if options.stream == text_of(s, "name")]
        named = named or [s for s in signals if options.stream == str(s["info"]["stream_id"])]
    else:
        full = [s for s in signals if len(s["time_stamps"])] or signals
        named = [s for s in full if text_of(s, "type").upper() == "EEG"] or full
    if len(named) == 1 and len(named[0]["time_stamps"]):
        return named[0]
    raise SourceError(_describe_choice(name, options.stream, named, streams))


def _describe_choice(
    name: str, wanted: str | None, found: list[XdfStream], streams: list[XdfStream]
) -> str:
    held = ", ".join(
        f"{text_of(s, 'name')!r} (id {s['info']['stream_id']}, {text_of(s, 'type')}, "
        f"{len(s['time_stamps'])} samples)"
        for s in streams
    )
    what = f"signal stream {wanted!r}" if wanted else "signal stream"
    how_many = f"{len(found)} of them" if len(found) != 1 else "one without a sample"
    return (
        f"{name} must hold one {what}, and has {how_many}. It holds {held or 'no stream'}; "
        "choose one with ?stream=NAME, or ?stream=ID where names are the same"
    )


def _content(
    path: Path, signal: XdfStream, streams: list[XdfStream], options: SourceOptions
) -> Content:
    channels = channels_of(signal)
    stim = _stim_channels(channels, options)
    picked = [i for i in range(len(channels)) if i not in stim]
    if not picked:
        raise SourceError(f"{path.name}: stream {text_of(signal, 'name')!r} has triggers only")
    data = np.asarray(signal["time_series"]).T
    rows = data if not stim else data[picked]
    rate = float(text_of(signal, "nominal_srate"))
    if options.triggers == "none":
        found = FoundMarks([])
    elif options.events_file:
        table = read_events_table(options.events_file, options.events)
        found = FoundMarks(marks_of(table, rate, first_sample=0))
    elif _takes_channel(channels, stim, streams, options):
        found = FoundMarks(marks_of_row(path.name, data[stim[-1]]))
    else:
        found = find_markers(path.name, signal, streams, options)
    return Content(
        name=path.name,
        form="XDF",
        rate=rate,
        leads=tuple(channels[i].lead for i in picked),
        signal=scaled_rows(rows, [channels[i].scale for i in picked]),
        events=KnownEvents(options.events.triggers(found.marks, rate, data.shape[1])),
        block_starts=_segment_starts(signal),
        notes=(
            *_notes(signal, streams, channels),
            *found.notes,
            *describe_map(options.events, found.marks),
        ),
    )


def _takes_channel(
    channels: list[XdfChannel], stim: list[int], streams: list[XdfStream], options: SourceOptions
) -> bool:
    """Whether the triggers are those of a channel; a replay's markers say more where they have texts."""
    if not stim or options.triggers not in (None, "stim", "last", channels[stim[-1]].lead.name):
        return False
    ids = [text_of(stream, "source_id") for stream in streams]
    texts = [s for s, own in zip(streams, ids, strict=True) if _mirror(own, ids) is not None]
    named = any(code_in(str(row[0])) is None for stream in texts for row in stream["time_series"])
    return options.triggers is not None or not named


def _stim_channels(channels: list[XdfChannel], options: SourceOptions) -> list[int]:
    """Channels that are not leads; the one with the triggers, if there is one, is the last."""
    names = [channel.lead.name for channel in channels]
    stim = [i for i, channel in enumerate(channels) if channel.lead.kind == "STIM"]
    if options.triggers == "last":
        named = [len(channels) - 1]
    else:
        named = [names.index(options.triggers)] if options.triggers in names else []
    return [i for i in stim if i not in named] + named


def _segment_starts(signal: XdfStream) -> tuple[int, ...] | None:
    starts = tuple(int(segment[0]) for segment in signal["info"].get("segments") or ())
    return starts if len(starts) > 1 else None


def _notes(signal: XdfStream, streams: list[XdfStream], channels: list[XdfChannel]) -> list[str]:
    notes = [f"stream {text_of(signal, 'name')!r} is replayed, of {len(streams)} in the file"]
    segments = signal["info"].get("segments") or ()
    if len(segments) > 1:
        notes.append(f"clock resets or lost samples break it into {len(segments)} blocks")
    odd = [channel for channel in channels if channel.odd_unit]
    unknown = [channel.lead.name for channel in odd if not channel.stated_unit]
    if unknown:
        notes.append(f"no unit given for {shorten_list(unknown)}: taken as microvolts")
    other = [
        f"{channel.lead.name} ({channel.stated_unit})" for channel in odd if channel.stated_unit
    ]
    if other:
        notes.append(f"not a voltage, sent unscaled: {shorten_list(other)}")
    return notes
