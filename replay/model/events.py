"""Events of a recording.

A `Mark` is an event with its name in the file; `replay.model.event_map` turns marks into triggers (sample,
code). `Events` are the triggers of a whole recording, known beforehand or found in a stim channel while it
is read.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Triggers
from tracks.common.codes import MAX_CODE

SCAN_SAMPLES = 1 << 16
"""Read at once when a whole channel is read. In one thread: two took as long, and as much CPU."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One event with its name in the file. text: what is sent as its marker, if not the name."""

    sample: int
    name: str
    text: str = ""


class EventCode(int):
    """A trigger code that has the text of its event; in all else it is the int.

    `replay.transform.masking.masked_packets` separates the two, and drops texts where a track masks codes.
    """

    text: str

    def __new__(cls, code: int, text: str) -> "EventCode":
        made = super().__new__(cls, code)
        made.text = text
        return made


def code_with_text(code: int, text: str) -> int:
    """The code with this text; the plain code if the text is empty or says no more than the code."""
    return EventCode(code, text) if text not in ("", str(code)) else code


def text_of(code: int) -> str:
    """The text of the code's event; empty if it has none."""
    return code.text if isinstance(code, EventCode) else ""


class Events(Protocol):
    """The triggers of a recording: (sample, code), in order of their samples."""

    def between(self, start: int, stop: int) -> Triggers: ...
    def all(self) -> Triggers: ...


class KnownEvents:
    """Triggers that are all known beforehand."""

    def __init__(self, triggers: Iterable[tuple[int, int]]) -> None:
        self._triggers: Triggers = tuple(sorted(triggers, key=lambda trigger: trigger[0]))
        self._samples = np.array([sample for sample, _ in self._triggers], dtype=np.int64)

    def between(self, start: int, stop: int) -> Triggers:
        first, last = np.searchsorted(self._samples, (start, stop))
        return self._triggers[first:last]

    def all(self) -> Triggers:
        return self._triggers


class StimColumn(Protocol):
    """A stim channel, which any thread may read."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The stored value of each sample."""

    def values(self, words: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """The codes of stored values; 0 for no code."""


CodeValues = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class PlainColumn:
    """A stim channel made of two functions; without `convert` its words are its values."""

    read: Callable[[int, int], CodeValues]
    convert: Callable[[CodeValues], CodeValues] | None = None

    def values(self, words: CodeValues) -> CodeValues:
        return self.convert(words) if self.convert else words


MarksToTriggers = Callable[[list[Mark]], Triggers]


class StimEvents:
    """Triggers of a stim channel, found while it is read, so that playing starts at once.

    A trigger is where the channel changes to a value other than 0; a value that is held is one trigger.
    """

    def __init__(
        self, name: str, n_samples: int, column: StimColumn, triggers: MarksToTriggers
    ) -> None:
        self._name, self._n_samples, self._column = name, n_samples, column
        self._triggers = triggers
        self._known: KnownEvents | None = None

    def between(self, start: int, stop: int) -> Triggers:
        if self._known is not None:
            return self._known.between(start, stop)
        return self._triggers(self.marks(max(start, 0), min(stop, self._n_samples)))

    def all(self) -> Triggers:
        if self._known is None:
            self._known = KnownEvents(self._triggers(self.all_marks()))
        return self._known.all()

    def all_marks(self) -> list[Mark]:
        """Every event of the channel; this reads the whole channel."""
        starts = range(0, self._n_samples, SCAN_SAMPLES)
        return [mark for start in starts for mark in self.marks(start, start + SCAN_SAMPLES)]

    def marks(self, start: int, stop: int) -> list[Mark]:
        stop = min(stop, self._n_samples)
        if start >= stop:
            return []
        # The sample before is read to find out whether the first value is new or held.
        first = max(start - 1, 0)
        words = self._column.read(first, stop).reshape(-1)
        runs = run_starts(words)
        marks = marks_of_runs(self._name, first + runs, self._column.values(words[runs]))
        return [mark for mark in marks if mark.sample >= start]


def run_starts(words: NDArray[Any]) -> NDArray[np.intp]:
    """The samples at which a channel changes, and the first one."""
    return np.concatenate([[0], np.flatnonzero(words[1:] != words[:-1]) + 1])


def marks_of_runs(
    name: str, samples: NDArray[np.intp], values: NDArray[np.floating[Any]]
) -> list[Mark]:
    """The events of a channel that changes to these values at these samples."""
    codes = _codes(name, samples, values)
    new = codes != 0
    new[1:] &= codes[1:] != codes[:-1]
    found = zip(samples[new].tolist(), codes[new].tolist(), strict=True)
    return [Mark(sample, str(code)) for sample, code in found]


def _codes(
    name: str, samples: NDArray[np.intp], values: NDArray[np.floating[Any]]
) -> NDArray[np.int64]:
    bad = np.flatnonzero(~is_code(values))
    if len(bad):
        raise SourceError(
            f"{name}: the trigger channel holds {values[bad[0]]:g} at sample "
            f"{int(samples[bad[0]])}; a trigger is a whole number from 0 to {MAX_CODE}. "
            "Name the right channel with ?triggers=NAME, or use ?triggers=none"
        )
    codes: NDArray[np.int64] = np.rint(values).astype(np.int64)
    return codes


def is_code(values: NDArray[np.floating[Any]], highest: int = MAX_CODE) -> NDArray[np.bool_]:
    """Whether each value is a whole number from 0 to the highest."""
    whole = np.rint(values)
    with np.errstate(invalid="ignore"):  # of infinite values
        are: NDArray[np.bool_] = (np.abs(values - whole) < 1e-3) & (whole >= 0) & (whole <= highest)
    return are
