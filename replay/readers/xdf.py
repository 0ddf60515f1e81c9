"""An XDF file: one signal stream, clock-corrected, with the markers of all its marker streams.

A block begins where the clock was set, or at least a second is missing. Stamps are freed of jitter between
gaps: pyxdf draws one line across gaps of up to 500 samples, which moves the markers of the whole recording.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyxdf
from numpy.typing import NDArray

from bci_stream.errors import SourceError, shorten_list
from bci_stream.packet import Lead, is_trigger_name
from replay.model.event_map import code_in, describe_map
from replay.model.events import KnownEvents
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.model.stamps import CLOCK_SET_S, missing_samples, without_jitter
from replay.model.units import VOLTAGES, kind_called, microvolts
from replay.readers.arrays.layout import marks_of_row, scaled_rows
from replay.readers.events_table import marks_of, read_events_table
from replay.readers.guard import reading
from replay.readers.xdf_markers import (
    FoundMarks,
    XdfStream,
    find_markers,
    is_signal,
    mirror_of,
    text_of,
)

BLOCK_GAP_S = 1.0
"""A block begins after a gap of this length."""

OFF_RATE = 0.1
"""A rate by the stamps that is off the stated one by a larger share is noted."""


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
    try:
        x, y, z = (float(text) / 1000 for text in texts)
    except ValueError:  # empty, or no number
        return None
    return x, y, z


def read_xdf(path: Path, options: SourceOptions) -> Content:
    """Read the one signal stream of an XDF, or the one that the options name."""
    with reading(str(path), "XDF", logger="pyxdf") as notes:
        streams, _ = pyxdf.load_xdf(str(path), verbose=False, dejitter_timestamps=False)
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
    received = np.asarray(signal["time_stamps"], dtype=np.float64)
    missing = missing_samples(received, rate)
    times = without_jitter(received, missing)
    if options.triggers == "none":
        found = FoundMarks([])
    elif options.events_file:
        table = read_events_table(options.events_file, options.events)
        found = FoundMarks(marks_of(table, rate, first_sample=0))
    elif _takes_channel(channels, stim, streams, options):
        found = FoundMarks(marks_of_row(path.name, data[stim[-1]]))
    else:
        found = find_markers(path.name, times, rate, streams, options)
    return Content(
        name=path.name,
        form="XDF",
        rate=rate,
        leads=tuple(channels[i].lead for i in picked),
        signal=scaled_rows(rows, [channels[i].scale for i in picked]),
        events=KnownEvents(options.events.triggers(found.marks, rate, data.shape[1])),
        block_starts=_block_starts(received, missing),
        notes=(
            f"stream {text_of(signal, 'name')!r} is replayed, of {len(streams)} in the file",
            *_timing_notes(received, times, missing, rate),
            *_unit_notes(channels),
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
    texts = [s for s, own in zip(streams, ids, strict=True) if mirror_of(own, ids) is not None]
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


def _block_starts(
    received: NDArray[np.float64], missing: NDArray[np.int64]
) -> tuple[int, ...] | None:
    steps = np.diff(received)
    starts = np.flatnonzero(((missing > 0) & (steps > BLOCK_GAP_S)) | (steps < -CLOCK_SET_S)) + 1
    return (0, *starts.tolist()) if len(starts) else None


def _timing_notes(
    received: NDArray[np.float64],
    times: NDArray[np.float64],
    missing: NDArray[np.int64],
    rate: float,
) -> list[str]:
    notes = []
    if lost := int(missing.sum()):
        gaps = int((missing > 0).sum())
        notes.append(f"by its stamps {lost} samples are missing, in {gaps} gap{'s' * (gaps > 1)}")
    if starts := _block_starts(received, missing):
        notes.append(f"clock resets or lost samples break it into {len(starts)} blocks")
    by_stamps = 1 / step if len(times) > 2 and (step := float(np.median(np.diff(times)))) else rate
    if abs(by_stamps / rate - 1) > OFF_RATE:
        notes.append(f"its stamps show a rate of {by_stamps:.4g} Hz, its header states {rate:g} Hz")
    return notes


def _unit_notes(channels: list[XdfChannel]) -> list[str]:
    notes = []
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
