"""An XDF file: one signal stream, clock-corrected, with the markers of all its marker streams.

Where the clock was reset or samples are lost, pyxdf breaks a stream into segments: each becomes a
block.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pyxdf

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
from replay.readers.xdf_markers import FoundMarks, Stream, find_markers, is_signal, text_of


def read_xdf(path: Path, options: SourceOptions) -> Content:
    """Read the one signal stream of an XDF, or the one that the options name."""
    with reading(str(path), "XDF", logger="pyxdf") as notes:
        streams, _ = pyxdf.load_xdf(str(path), verbose=False)
        content = _content(path, _choose(path.name, streams, options), streams, options)
    return dataclasses.replace(content, notes=(*notes, *content.notes))


def _choose(name: str, streams: list[Stream], options: SourceOptions) -> Stream:
    signals = [s for s in streams if is_signal(s)]
    if options.stream:
        named = [s for s in signals if options.stream == text_of(s, "name")]
        named = named or [s for s in signals if options.stream == str(s["info"]["stream_id"])]
    else:
        full = [s for s in signals if len(s["time_stamps"])] or signals
        named = [s for s in full if text_of(s, "type").upper() == "EEG"] or full
    if len(named) == 1 and len(named[0]["time_stamps"]):
        return named[0]
    raise SourceError(_complaint(name, options.stream, named, streams))


def _complaint(name: str, wanted: str | None, found: list[Stream], streams: list[Stream]) -> str:
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


def _content(path: Path, signal: Stream, streams: list[Stream], options: SourceOptions) -> Content:
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
    elif stim and options.triggers in (None, "stim", "last", channels[stim[-1]].lead.name):
        found = FoundMarks(marks_of_row(path.name, data[stim[-1]]))
    else:
        found = find_markers(path.name, signal, streams, options.triggers)
    return Content(
        name=path.name,
        form="XDF",
        rate=rate,
        leads=tuple(channels[i].lead for i in picked),
        signal=scaled_rows(rows, [channels[i].scale for i in picked]),
        events=_events(found.marks, rate, data.shape[1], options),
        block_starts=_segment_starts(signal),
        notes=(
            *_notes(signal, streams, channels),
            *found.notes,
            *said_aloud(options.events, found.marks),
        ),
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


def _events(marks: list[Mark], rate: float, n_samples: int, options: SourceOptions) -> Events:
    return KnownEvents(options.events.triggers(marks, rate, n_samples))


def _segment_starts(signal: Stream) -> tuple[int, ...] | None:
    starts = tuple(int(segment[0]) for segment in signal["info"].get("segments") or ())
    return starts if len(starts) > 1 else None


def _notes(signal: Stream, streams: list[Stream], channels: list[Channel]) -> list[str]:
    notes = [f"stream {text_of(signal, 'name')!r} is replayed, of {len(streams)} in the file"]
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
