"""The events of a raw object of MNE: in a table beside it, its annotations, or a stim channel."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.errors import SourceError
from replay.event_map import said_aloud
from replay.events import Events, KnownEvents, Mark, PlainColumn, StimColumn, StimEvents
from replay.options import SourceOptions
from replay.readers.buffers import Buffers, LookedColumn
from replay.readers.content import Stretch
from replay.readers.edf_column import find_edf_column
from replay.readers.events_table import EventsTable, marks_of
from replay.readers.mne_signal import MneSignal, code_scale


@dataclass(frozen=True)
class FoundEvents:
    """Triggers, and what is to be said about them.

    suspects: where something may stand that is no number, if all of the file was seen for the triggers.
    """

    events: Events
    notes: tuple[str, ...] = ()
    suspects: tuple[Stretch, ...] | None = None


# Annotations about the recording itself, not about what the subject saw or did.
_NO_EVENTS = ("BAD", "EDGE", "New Segment")
_KEYWORDS = (None, "stim", "annotations", "events", "last", "none")


def events_of_raw(
    raw: Any,
    name: str,
    stim: list[int],
    options: SourceOptions,
    *,
    table: EventsTable | None = None,
    path: Path | None = None,
    buffers: Buffers | None = None,
) -> FoundEvents:
    """The triggers that the options name; else the table's, the annotations', the channel's.

    path: the file, where it is one. buffers: where its samples stand, if that is plain.
    """
    if options.triggers == "none":
        return _known([], raw, options)
    if table is not None:
        return _known(marks_of(table, float(raw.info["sfreq"]), int(raw.first_samp)), raw, options)
    marks = _annotations(raw) if options.triggers in (None, "annotations") else []
    speaks = any(options.events.codes(mark.name) for mark in marks)
    if options.triggers == "annotations" or (options.triggers is None and not stim):
        return _known(marks, raw, options)
    if options.triggers is None and speaks:
        return _before_the_channel(_known(marks, raw, options), raw.ch_names[stim[-1]])
    # STI 014 and its like sum up the single lines, and stand last where there are several.
    channel = _named_channel(raw, name, stim, options.triggers or "stim")
    return _in_channel(raw, name, channel, options, path, buffers)


def _before_the_channel(found: FoundEvents, channel: str) -> FoundEvents:
    note = f"triggers are taken from the annotations; ?triggers={channel} takes the channel's"
    return FoundEvents(found.events, (*found.notes, note))


def _named_channel(raw: Any, name: str, stim: list[int], wanted: str) -> int:
    if wanted == "last":
        return len(raw.ch_names) - 1
    if wanted == "stim" and stim:
        return stim[-1]
    if wanted in _KEYWORDS or wanted not in raw.ch_names:
        channels = ", ".join(raw.ch_names)
        raise SourceError(f"{name} has no channel {wanted!r} for triggers; it has {channels}")
    return int(raw.ch_names.index(wanted))


def _known(marks: list[Mark], raw: Any, options: SourceOptions) -> FoundEvents:
    n_samples = int(raw.n_times)
    triggers = options.events.triggers(marks, float(raw.info["sfreq"]), n_samples)
    outside = sum(not 0 <= mark.sample < n_samples for mark in marks)
    notes = (f"{outside} events lie outside the recording and are left out",) if outside else ()
    return FoundEvents(KnownEvents(triggers), notes + said_aloud(options.events, marks))


def _annotations(raw: Any) -> list[Mark]:
    notes = raw.annotations
    # Not raw.time_as_index: that makes the times of all samples, some 50 MB for 1.5 h at 1 kHz.
    # A raw object's annotations count from the acquisition's beginning, its samples from the file's.
    onsets_s = np.asarray(notes.onset, dtype=float) - float(raw.first_time)
    samples = np.rint(onsets_s * float(raw.info["sfreq"]))
    return [
        Mark(int(sample), str(name))
        for sample, name in zip(samples, notes.description, strict=True)
        if not str(name).startswith(_NO_EVENTS)
    ]


def _in_channel(
    raw: Any,
    name: str,
    channel: int,
    options: SourceOptions,
    path: Path | None,
    buffers: Buffers | None,
) -> FoundEvents:
    rate, n_samples, rules = float(raw.info["sfreq"]), int(raw.n_times), options.events

    def events_in(column: StimColumn) -> StimEvents:
        return StimEvents(
            name, n_samples, column, lambda marks: rules.triggers(marks, rate, n_samples)
        )

    if buffers is not None:
        look = buffers.look(channel)
        column = LookedColumn(look.column, buffers.word, _gain(raw, channel))
        return FoundEvents(KnownEvents(events_in(column).all()), suspects=look.suspects)
    events = events_in(_column(raw, name, channel, path))
    # A code that follows its event by seconds may fall into a stretch that has no event itself.
    return FoundEvents(events if rules.instant else KnownEvents(events.all()))


def _gain(raw: Any, channel: int) -> float:
    """What makes the channel's own numbers of the file's words."""
    info = raw.info["chs"][channel]
    return float(info["cal"]) * float(info["range"]) * code_scale(raw, channel)


def _column(raw: Any, name: str, channel: int, path: Path | None) -> StimColumn:
    """The channel's own bytes where their place is plain, else as MNE reads it."""
    if path is not None:
        is_status = raw.get_channel_types(picks=[channel])[0] == "stim"
        column = find_edf_column(path, raw.ch_names[channel], is_status)
        if column is not None:
            return column
    return PlainColumn(MneSignal(name, raw, [channel], [code_scale(raw, channel)]).read)
