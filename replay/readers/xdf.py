"""An XDF file: one signal stream, clock-corrected, with the markers of all its marker streams.

Where the clock was reset or samples are lost, pyxdf breaks a stream into segments: each becomes a
block.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyxdf
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.event_map import said_aloud
from replay.events import Events, KnownEvents, Mark
from replay.listed import listed
from replay.options import SourceOptions
from replay.readers.array_events import marks_of_row
from replay.readers.array_rows import scaled_rows
from replay.readers.content import Content
from replay.readers.events_table import marks_of, read_events_table
from replay.readers.guard import reading
from replay.readers.xdf_channels import Channel, channels_of

Stream = dict[str, Any]


def read_xdf(path: Path, options: SourceOptions) -> Content:
    """Read the one signal stream of an XDF, or the one that the options name."""
    with reading(str(path), "XDF", logger="pyxdf") as notes:
        streams, _ = pyxdf.load_xdf(str(path), verbose=False)
        content = _content(path, _choose(path.name, streams, options), streams, options)
    return dataclasses.replace(content, notes=(*notes, *content.notes))


def _text(stream: Stream, key: str) -> str:
    return str((stream["info"].get(key) or [""])[0] or "")


def _is_marker(stream: Stream) -> bool:
    return _text(stream, "channel_format") == "string" or not float(_text(stream, "nominal_srate"))


def _choose(name: str, streams: list[Stream], options: SourceOptions) -> Stream:
    signals = [s for s in streams if not _is_marker(s)]
    if options.stream:
        named = [s for s in signals if options.stream == _text(s, "name")]
        named = named or [s for s in signals if options.stream == str(s["info"]["stream_id"])]
    else:
        full = [s for s in signals if len(s["time_stamps"])] or signals
        named = [s for s in full if _text(s, "type").upper() == "EEG"] or full
    if len(named) == 1 and len(named[0]["time_stamps"]):
        return named[0]
    raise SourceError(_complaint(name, options.stream, named, streams))


def _complaint(name: str, wanted: str | None, found: list[Stream], streams: list[Stream]) -> str:
    held = ", ".join(
        f"{_text(s, 'name')!r} (id {s['info']['stream_id']}, {_text(s, 'type')}, "
        f"{len(s['time_stamps'])} samples)"
        for s in streams
    )
    what = f"signal stream {wanted!r}" if wanted else "signal stream"
    how_many = f"{len(found)} of them" if len(found) != 1 else "one without a sample"
    return (
        f"{name} must hold one {what}, and has {how_many}. It holds {held or 'no stream'}; "
        "choose one with ?stream=NAME, or ?stream=ID where names are the same"
    )


def _content(path: Path, signal: Stream, streams: list[Stream], options: SourceOptions) -> Content:
    channels = channels_of(signal)
    stim = _stim_channels(channels, options)
    picked = [i for i in range(len(channels)) if i not in stim]
    if not picked:
        raise SourceError(f"{path.name}: stream {_text(signal, 'name')!r} has triggers only")
    data = np.asarray(signal["time_series"]).T
    rows = data if not stim else data[picked]
    rate = float(_text(signal, "nominal_srate"))
    if options.triggers == "none":
        marks: list[Mark] = []
    elif options.events_file:
        table = read_events_table(options.events_file, options.events)
        marks = marks_of(table, rate, first_sample=0)
    elif stim and options.triggers in (None, "stim", "last", channels[stim[-1]].lead.name):
        marks = marks_of_row(path.name, data[stim[-1]])
    else:
        marks = _markers(signal, _marker_streams(path.name, streams, options.triggers))
    return Content(
        name=path.name,
        form="XDF",
        rate=rate,
        leads=tuple(channels[i].lead for i in picked),
        signal=scaled_rows(rows, [channels[i].scale for i in picked]),
        events=_events(marks, rate, data.shape[1], options),
        block_starts=_segment_starts(signal),
        notes=(*_notes(signal, streams, channels), *said_aloud(options.events, marks)),
    )


def _stim_channels(channels: list[Channel], options: SourceOptions) -> list[int]:
    """Channels that are no leads; the one that holds the triggers, if one does, stands last."""
    names = [channel.lead.name for channel in channels]
    stim = [i for i, channel in enumerate(channels) if channel.lead.kind == "STIM"]
    if options.triggers == "last":
        named = [len(channels) - 1]
    else:
        named = [names.index(options.triggers)] if options.triggers in names else []
    return [i for i in stim if i not in named] + named


def _marker_streams(name: str, streams: list[Stream], wanted: str | None) -> list[Stream]:
    """All of them, or the one of that name."""
    markers = [stream for stream in streams if _is_marker(stream)]
    named = [stream for stream in markers if wanted in (None, _text(stream, "name"))]
    if wanted is not None and not named:
        held = ", ".join(repr(_text(stream, "name")) for stream in markers) or "none"
        raise SourceError(
            f"{name} has neither a channel nor a marker stream {wanted!r} for triggers; its marker "
            f"streams: {held}"
        )
    return named


def _events(marks: list[Mark], rate: float, n_samples: int, options: SourceOptions) -> Events:
    return KnownEvents(options.events.triggers(marks, rate, n_samples))


def _markers(signal: Stream, streams: list[Stream]) -> list[Mark]:
    """The markers of every marker stream, each on the sample whose time is nearest to its own."""
    times = np.asarray(signal["time_stamps"], dtype=np.float64)
    found = {
        Mark(_nearest(times, float(time)), _marker_name(value))
        for stream in streams
        for time, value in zip(stream["time_stamps"], stream["time_series"], strict=True)
        if times[0] - 1 <= time <= times[-1] + 1  # before or after the signal there is no sample
    }
    return sorted(found, key=lambda mark: mark.sample)


def _nearest(times: NDArray[np.float64], time: float) -> int:
    right = int(np.clip(np.searchsorted(times, time), 1, len(times) - 1)) if len(times) > 1 else 0
    return right - 1 if right and time - times[right - 1] <= times[right] - time else right


def _marker_name(value: Any) -> str:
    first = value[0] if np.size(value) else ""
    return str(int(first)) if isinstance(first, int | float | np.number) else str(first)


def _segment_starts(signal: Stream) -> tuple[int, ...] | None:
    starts = tuple(int(segment[0]) for segment in signal["info"].get("segments") or ())
    return starts if len(starts) > 1 else None


def _notes(signal: Stream, streams: list[Stream], channels: list[Channel]) -> list[str]:
    notes = [f"stream {_text(signal, 'name')!r} is replayed, of {len(streams)} in the file"]
    segments = signal["info"].get("segments") or ()
    if len(segments) > 1:
        notes.append(f"clock resets or lost samples break it into {len(segments)} blocks")
    odd = [channel for channel in channels if channel.odd_unit]
    unsaid = [channel.lead.name for channel in odd if not channel.unit_said]
    if unsaid:
        notes.append(f"no unit given for {listed(unsaid)}: taken as microvolts")
    other = [f"{channel.lead.name} ({channel.unit_said})" for channel in odd if channel.unit_said]
    if other:
        notes.append(f"no voltage, and sent as it is: {listed(other)}")
    return notes
