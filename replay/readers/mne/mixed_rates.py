"""Channels of an EDF, BDF or GDF file may each have a rate of their own.

MNE raises all of them to the highest one, by a Fourier transform of each piece that is read: what comes out
depends on where a piece ends, and on samples that come later. Here each is read at its own rate, and a value
of a slower one stands until its next.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from bci_stream.errors import SourceError, shorten_list
from bci_stream.packet import FloatArray
from replay.model.signal import Signal
from replay.readers.mne.mne_signal import MneSignal

_IN_RECORDS = ("EDF", "BDF", "GDF", "Neuracle")


@dataclass(frozen=True)
class RecordCounts:
    """How many samples each channel of a raw object has in a record of the file."""

    counts: tuple[int, ...]

    @property
    def highest(self) -> int:
        return max(self.counts)

    @property
    def is_mixed(self) -> bool:
        return len(set(self.counts)) > 1


def record_counts(raw: Any, name: str, form: str) -> RecordCounts | None:
    """None for formats whose channels all have one rate."""
    if form not in _IN_RECORDS:
        return None
    found = {tuple(extra["n_samps"][extra["sel"]].tolist()) for extra in raw._raw_extras}
    if len(found) > 1:
        raise SourceError(f"{name}: the rates of its channels are not the same in all of its files")
    counts = RecordCounts(found.pop())
    if min(counts.counts, default=1) < 1:
        lead = raw.ch_names[counts.counts.index(min(counts.counts))]
        raise SourceError(f"{name}: {lead} has no sample in any record; is the file damaged?")
    return counts


def at_rate(raw: Any, record_samples: int) -> Any:
    """The same file as if all channels had so many samples a record: right for those that have."""
    own, extras = copy(raw), raw._raw_extras
    lengths = [record_samples * int(extra["n_records"]) for extra in extras]
    own._raw_extras = [
        {**extra, "max_samp": record_samples, "nsamples": length}
        for extra, length in zip(extras, lengths, strict=True)
    ]
    own._last_samps = [
        int(first) + n - 1 for first, n in zip(raw._first_samps, lengths, strict=True)
    ]
    own.info = raw.info.copy()
    span, parts = (float(number) for number in extras[0]["record_length"])
    with own.info._unlock():
        own.info["sfreq"] = record_samples * parts / span
    return own


def signal_of(
    raw: Any,
    name: str,
    channels: Sequence[int],
    scales: Sequence[float],
    counts: RecordCounts | None,
) -> Signal:
    """Some channels of a raw object at its highest rate; scales: as `MneSignal` has them."""
    if counts is None or not counts.is_mixed:
        return MneSignal(name, raw, channels, scales)
    parts = []
    for count in sorted({counts.counts[channel] for channel in channels}):
        columns = [k for k, channel in enumerate(channels) if counts.counts[channel] == count]
        signal = MneSignal(
            name,
            at_rate(raw, count),
            [channels[k] for k in columns],
            [scales[k] for k in columns],
        )
        parts.append(_Part(signal, count, columns))
    return HeldSignal(parts, len(channels), counts.highest, int(raw.n_times))


@dataclass(frozen=True)
class _Part:
    """The channels of one rate, and which columns they become."""

    signal: Signal
    record_samples: int
    columns: list[int]


@dataclass(frozen=True)
class HeldSignal:
    """Channels of several rates side by side: a value stands until its channel's next one."""

    parts: Sequence[_Part]
    n_leads: int
    record_samples: int
    n_samples: int

    def read(self, start: int, stop: int) -> FloatArray:
        samples = np.empty((stop - start, self.n_leads), dtype=np.float32)
        for part in self.parts:
            # The last one at or before each sample's time.
            at = np.arange(start, stop) * part.record_samples // self.record_samples
            values = part.signal.read(int(at[0]), int(at[-1]) + 1)
            samples[:, part.columns] = values[at - at[0]]
        return samples


def describe_held(
    raw: Any, channels: Sequence[int], counts: RecordCounts | None
) -> tuple[str, ...]:
    """What is to be said of the slower ones among these channels."""
    slow = [c for c in channels if counts and counts.counts[c] < counts.highest]
    if counts is None or not slow:
        return ()
    rate = float(raw.info["sfreq"])
    named = [f"{raw.ch_names[c]} ({rate * counts.counts[c] / counts.highest:g} Hz)" for c in slow]
    return (
        f"{shorten_list(named)}: slower than the stream's {rate:g} Hz, each value stands until the next",
    )
