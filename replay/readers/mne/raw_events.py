"""The events of a raw file: in a table beside it, its annotations, or a stim channel."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Triggers
from replay.model.event_map import EventMap, describe_map
from replay.model.events import (
    Events,
    KnownEvents,
    Mark,
    PlainColumn,
    StimColumn,
    StimEvents,
    is_code,
    marks_of_runs,
)
from replay.model.options import SourceOptions
from replay.model.signal import SampleRange
from replay.readers.events_table import EventsTable, marks_of
from replay.readers.mne.edf import STATUS_WORDS, find_edf_column, status_codes
from replay.readers.mne.mne_signal import MICROVOLTS_A_VOLT, code_scale
from replay.readers.mne.raw_file import RawFile


@dataclass(frozen=True)
class FoundEvents:
    """Triggers, and what is to be said about them.

    suspects: where something may stand that is no number, if all of the file was seen for the triggers.
    """

    events: Events
    notes: tuple[str, ...] = ()
    suspects: tuple[SampleRange, ...] | None = None


# Annotations about the recording itself, not about what the subject saw or did.
_NO_EVENTS = ("bad", "edge", "new segment")
# All that such a file holds, also a channel of codes, is microvolts to MNE; but MNE writes its own volts.
_ALL_MICROVOLTS = (".set", ".cnt")
_KEYWORDS = (None, "stim", "annotations", "events", "last", "none")


def events_of_raw(
    file: RawFile, stim: list[int], options: SourceOptions, table: EventsTable | None = None
) -> FoundEvents:
    """The triggers that the options name; else the table's, the annotations', the channel's."""
    if options.triggers == "none":
        return _known([], file, options)
    if table is not None:
        return _known(_of_table(table, file), file, options)
    marks = _annotations(file) if options.triggers in (None, "annotations") else []
    speaks = any(options.events.codes(mark.name) for mark in marks)
    if options.triggers == "annotations" or (options.triggers is None and not stim):
        return _known(marks, file, options)
    if options.triggers is None and speaks:
        return _before_the_channel(_known(marks, file, options), file.raw.ch_names[stim[-1]])
    # STI 014 and its like sum up the single lines, and stand last where there are several.
    return _in_channel(file, _named_channel(file, stim, options.triggers or "stim"), options)


def _before_the_channel(found: FoundEvents, channel: str) -> FoundEvents:
    note = f"triggers are taken from the annotations; ?triggers={channel} takes the channel's"
    return FoundEvents(found.events, (*found.notes, note))


def _named_channel(file: RawFile, stim: list[int], wanted: str) -> int:
    names = file.raw.ch_names
    if wanted == "last":
        return len(names) - 1
    if wanted == "stim" and stim:
        return stim[-1]
    if wanted in _KEYWORDS or wanted not in names:
        channels = ", ".join(names)
        raise SourceError(f"{file.name} has no channel {wanted!r} for triggers; it has {channels}")
    return int(names.index(wanted))


# Marks stand where the clock says: on their sample in a file without pauses.


def _known(marks: list[Mark], file: RawFile, options: SourceOptions) -> FoundEvents:
    outside = sum(_sample_of(mark.sample, file) is None for mark in marks)
    notes = (f"{outside} events lie outside the recording and are left out",) if outside else ()
    triggers = _triggers(marks, file, options.events)
    return FoundEvents(KnownEvents(triggers), notes + describe_map(options.events, marks))


def _triggers(marks: Iterable[Mark], file: RawFile, rules: EventMap) -> Triggers:
    if file.times is None:
        return rules.triggers(marks, file.rate, file.n_samples)
    by_the_clock = rules.triggers(marks, file.rate, file.times.n_clock)
    placed = [(_sample_of(place, file), code) for place, code in by_the_clock]
    return tuple((sample, code) for sample, code in placed if sample is not None)


def _sample_of(place: int, file: RawFile) -> int | None:
    if file.times is not None:
        return file.times.sample_of(place)
    return place if 0 <= place < file.n_samples else None


def _annotations(file: RawFile) -> list[Mark]:
    notes = file.raw.annotations
    # Not raw.time_as_index: that makes the times of all samples, some 50 MB for 1.5 h at 1 kHz.
    # A raw object's annotations count from the acquisition's beginning, its samples from the file's.
    onsets_s = np.asarray(notes.onset, dtype=float) - float(file.raw.first_time)
    return [
        Mark(place, str(name))
        for place, name in zip(_places(onsets_s, file), notes.description, strict=True)
        if not str(name).lower().startswith(_NO_EVENTS)
    ]


def _of_table(table: EventsTable, file: RawFile) -> list[Mark]:
    if file.times is None:
        return marks_of(table, file.rate, int(file.raw.first_samp))
    of_time, of_sample = file.times.clock_of_time, file.times.clock_of
    return [
        Mark(of_sample(onset) if isinstance(onset, int) else of_time(onset), name)
        for onset, name in table
    ]


def _places(onsets_s: NDArray[np.float64], file: RawFile) -> list[int]:
    if file.times is not None:
        return [file.times.clock_of_time(float(onset_s)) for onset_s in onsets_s]
    places: list[int] = np.rint(onsets_s * file.rate).astype(np.int64).tolist()
    return places


def _in_channel(file: RawFile, channel: int, options: SourceOptions) -> FoundEvents:
    rules, times, buffers = options.events, file.times, file.buffers

    def triggers_at(marks: list[Mark]) -> Triggers:
        if times is not None:
            marks = [Mark(times.clock_of(mark.sample), mark.name) for mark in marks]
        return _triggers(marks, file, rules)

    if buffers is not None:
        look = buffers.look(channel)
        values = look.words.astype(np.float64) * _gain(file.raw, channel)
        codes = _codes_of(file, channel, values, values * MICROVOLTS_A_VOLT)
        triggers = triggers_at(marks_of_runs(file.name, look.starts, codes))
        return FoundEvents(KnownEvents(triggers), suspects=look.suspects)
    events = StimEvents(file.name, file.n_samples, _column(file, channel), triggers_at)
    # A code that follows its event by seconds may fall into a stretch that has no event itself.
    return FoundEvents(events if rules.instant else KnownEvents(events.all()))


def _gain(raw: Any, channel: int) -> float:
    """What makes the channel's own numbers of the file's words."""
    info = raw.info["chs"][channel]
    return float(info["cal"]) * float(info["range"]) * code_scale(raw, channel)


def _column(file: RawFile, channel: int) -> StimColumn:
    """The channel's own bytes where their place is plain, else as MNE reads it."""
    if file.path is not None:
        name = file.raw.ch_names[channel]
        column = find_edf_column(file.path, name, _is_stim(file, channel))
        if column is not None:
            return column
    scale = code_scale(file.raw, channel)
    read = file.signal([channel, channel], [scale, scale * MICROVOLTS_A_VOLT]).read
    return PlainColumn(lambda start, stop: _codes_of(file, channel, *read(start, stop).T))


Values = NDArray[np.floating[Any]]


def _codes_of(file: RawFile, channel: int, values: Values, microvolts: Values) -> Values:
    """What stands in a trigger channel, of what MNE makes of it."""
    if file.path is not None and file.path.suffix.lower() in _ALL_MICROVOLTS:
        return np.where(
            np.abs(values) < 0.5, microvolts, values
        )  # no code is below 1 V, or above 0.07 V
    if _is_stim(file, channel):
        return np.where(is_code(values, STATUS_WORDS), status_codes(values), values)
    return values


def _is_stim(file: RawFile, channel: int) -> bool:
    return bool(file.raw.get_channel_types(picks=[channel])[0] == "stim")
