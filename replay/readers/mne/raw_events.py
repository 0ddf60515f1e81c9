"""The events of a raw object: from a table beside the file, its annotations, or a stim channel."""

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
)
from replay.model.options import SourceOptions
from replay.readers.events_table import EventsTable, TableBeside, marks_of
from replay.readers.mne.raw_file import RawFile

STATUS_BITS = 2**16 - 1
"""The bits of a status word that hold a code; an amplifier sets flags above them (BioSemi: bits 16-23)."""

STATUS_WORDS = 2**24 - 1
"""The greatest status word."""

_NO_EVENTS = ("bad", "edge", "new segment")
"""Annotations about the recording itself begin with these words."""

Values = NDArray[np.floating[Any]]
_KEYWORDS = (None, "stim", "annotations", "events", "last", "none")


@dataclass(frozen=True)
class FoundEvents:
    """Triggers, and notes about them."""

    events: Events
    notes: tuple[str, ...] = ()


def events_of_raw(
    file: RawFile, stim: list[int], options: SourceOptions, beside: TableBeside | None = None
) -> FoundEvents:
    """The triggers that the options name; else a table that comes first, the annotations, the stim channel.

    A table beside the file that does not come first is used if the file has no events of its own.
    """
    if options.triggers == "none":
        return _known([], file, options)
    if beside is not None and beside.first:
        return _of_beside(beside, file, options)
    marks = _annotations(file) if options.triggers in (None, "annotations") else []
    if beside is None:
        return _own_events(file, marks, stim, options)
    if not marks and not stim:
        return _of_beside(beside, file, options)
    own = _own_events(file, marks, stim, options)
    note = f"its own events are used, and not those of {beside.name}; ?triggers=events takes these"
    return FoundEvents(own.events, (*own.notes, note))


def _of_beside(beside: TableBeside, file: RawFile, options: SourceOptions) -> FoundEvents:
    table = beside.read()
    found = _known(_of_table(table, file), file, options)
    note = f"its {len(table)} events are those of {beside.name}"
    return FoundEvents(found.events, (note, *found.notes))


def _own_events(
    file: RawFile, marks: list[Mark], stim: list[int], options: SourceOptions
) -> FoundEvents:
    have_codes = any(options.events.codes(mark.name) for mark in marks)
    if options.triggers == "annotations" or (options.triggers is None and not stim):
        return _known(marks, file, options)
    if options.triggers is None and have_codes:
        found, channel = _known(marks, file, options), file.raw.ch_names[stim[-1]]
        note = f"triggers are taken from the annotations; ?triggers={channel} takes the channel's"
        return FoundEvents(found.events, (*found.notes, note))
    # A channel that sums up single trigger lines, such as STI 014, is the last one.
    return _in_channel(file, _named_channel(file, stim, options.triggers or "stim"), options)


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


# Samples of marks are counted on the clock (`record_times`); in a file without pauses that is the sample.


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
    notes = file.annotations
    # raw.time_as_index would make an array of the times of all samples (50 MB for 1.5 h at 1 kHz).
    # Annotations count from the start of the acquisition, samples from the start of the file.
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
        Mark(of_sample(onset) if isinstance(onset, int) else of_time(onset), name, text)
        for onset, name, text in table
    ]


def _places(onsets_s: NDArray[np.float64], file: RawFile) -> list[int]:
    if file.times is not None:
        return [file.times.clock_of_time(float(onset_s)) for onset_s in onsets_s]
    places: list[int] = np.rint(onsets_s * file.rate).astype(np.int64).tolist()
    return places


def _in_channel(file: RawFile, channel: int, options: SourceOptions) -> FoundEvents:
    rules, times = options.events, file.times

    def triggers_at(marks: list[Mark]) -> Triggers:
        if times is not None:
            marks = [Mark(times.clock_of(mark.sample), mark.name) for mark in marks]
        return _triggers(marks, file, rules)

    events = StimEvents(file.name, file.n_samples, _column(file, channel), triggers_at)
    # A rule with a delay can put a code into a piece that has no event, so all events are needed.
    return FoundEvents(events if rules.instant else KnownEvents(events.all()))


def _column(file: RawFile, channel: int) -> StimColumn:
    """The channel alone where the format allows it, else as MNE reads it."""
    column = file.stim_column(file.raw.ch_names[channel], file.is_stim(channel))
    if column is not None:
        return column
    scale = file.scales[channel].to_stored
    read = file.signal([channel], [scale]).read
    if not file.codes_in_microvolts:
        convert = without_flags if file.is_stim(channel) else None
        return PlainColumn(lambda start, stop: read(start, stop)[:, 0], convert)
    read_microvolts = file.signal([channel], [scale * 1e6]).read

    def codes(start: int, stop: int) -> Values:
        # Files written by MNE have codes in volts. No code is below 1 V or above 0.07 V.
        values = read(start, stop)[:, 0]
        return np.where(np.abs(values) < 0.5, read_microvolts(start, stop)[:, 0], values)

    return PlainColumn(codes)


def without_flags(values: Values) -> Values:
    """Values of a stim channel; status words lose the amplifier's flags."""
    words = is_code(values, STATUS_WORDS)
    codes = values.astype(np.float64)
    codes[words] = status_codes(values[words])
    return codes


def status_codes(values: Values) -> NDArray[np.float64]:
    """Status words without the amplifier's flags."""
    codes: NDArray[np.int64] = np.rint(values).astype(np.int64) & STATUS_BITS
    return codes.astype(np.float64)
