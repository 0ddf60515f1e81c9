"""Labels of a recording of the training format, which only the judge may know.

A `TruthReader` takes the triggers of a recording piece by piece and returns truth lines for the run
log, each as soon as it is known; a recording that breaks the format raises a `TruthError` with the
place. A `LabelledBlock` helps to find what can be read but departs from the rules all the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from tracks.common.codes import BLOCK_END, BLOCK_START, SESSION_END, TRIAL_END, BlockCounter
from tracks.common.masks import Triggers
from tracks.errors import TruthError
from tracks.rules import Rules

if TYPE_CHECKING:
    from tracks.track import Track


Angles: TypeAlias = NDArray[Any] | None
TruthEvent: TypeAlias = dict[str, Any]


class TruthReader(ABC):
    """Reads the labels of one session from its triggers.

    labels: what a label of the track is, in words.
    """

    labels: str

    def __init__(self, rate: Fraction, rules: Rules, angles: Angles = None) -> None:
        self.rate = rate
        self.angles = angles  # ecog's labels; the other tracks' are in the triggers
        self.blocks = BlockCounter(rules.get("block_codes", True))
        self._piece = 0  # the recording's own block, which an error names
        self._found = False

    @abstractmethod
    def code(self, position: int, code: int) -> list[TruthEvent]:
        """One trigger, at a sample of its block."""

    @abstractmethod
    def block_over(self) -> None:
        """Raise here if something is still open: nothing goes on into the next block."""

    def step(self, block: int, start: int, n: int, triggers: Triggers) -> list[TruthEvent]:
        """The triggers of a piece: `start` is its first sample in the recording's block."""
        if block != self._piece:
            self.block_over()
            self._piece = block
        events: list[TruthEvent] = []
        for offset, code in sorted(triggers, key=trigger_order):
            if not 0 <= offset < n:
                expected = f"triggers within its {n} samples"
                raise self.error(start + offset, f"trigger {code} outside its piece", expected)
            if self.blocks.bounds(code):
                self.block_over()
            self.blocks.see(code)
            events += self.code(start + int(offset), int(code))
        self._found = self._found or bool(events)
        return events

    def continue_from(self, before: "TruthReader") -> None:
        """Continue another reader's session, without what it had open: a gap may have cut it off."""
        self.blocks, self._piece, self._found = before.blocks, before._piece, before._found

    def finish(self) -> list[TruthEvent]:
        """The recording is over."""
        self.block_over()
        if not self._found:
            raise TruthError(
                f"the recording holds no label: no {self.labels} in it. "
                "Is it a test recording, or one of another track?"
            )
        return []

    def label(self, value: object) -> TruthEvent:
        return {"kind": "truth", "block": self.blocks.current, "label": value}

    def place(self, position: int) -> str:
        return place_in(self._piece, position, self.rate)

    def error(self, position: int, got: str, expected: str) -> TruthError:
        return TruthError(f"{self.place(position)}: {got}; expected {expected}")


def place_in(block: int, sample: int, rate: float | Fraction) -> str:
    """A place of a recording, for messages."""
    return f"block {block}, sample {sample} ({float(sample / rate):.3f} s)"


def trigger_order(trigger: tuple[int, int]) -> tuple[int, bool]:
    """Sort key: by sample; at the same sample a trial ends before the next one begins."""
    return trigger[0], trigger[1] != TRIAL_END


JITTER_S = 0.1
"""Tolerance for the time of a trigger: twice the 50 ms by which those of a recording jitter."""

_TRIAL_ENDS = (TRIAL_END, BLOCK_START, BLOCK_END, SESSION_END)


@dataclass(frozen=True, slots=True)
class LabelledBlock:
    """One block of a labelled recording: its number from 0, rate in Hz, length and triggers."""

    number: int
    rate: float
    n_samples: int
    triggers: Triggers

    def ordered(self) -> list[tuple[int, int]]:
        """(sample, code), in the order in which they act."""
        return sorted(self.triggers, key=trigger_order)

    def seconds(self, start: int, stop: int) -> float:
        return (stop - start) / self.rate

    def warning(self, sample: int, got: str, expected: str) -> str:
        return f"{place_in(self.number, sample, self.rate)}: {got}; expected {expected}"

    def cut_short(self, begins: Callable[[int], bool], what: str, least_s: float) -> Iterator[str]:
        """Warnings of trials that a trigger or the block's end cuts off before `least_s`."""
        ordered = self.ordered()
        for number, (start, code) in enumerate(ordered):
            if not begins(code):
                continue
            ends = ((s, c) for s, c in ordered[number + 1 :] if c in _TRIAL_ENDS or begins(c))
            stop, ended_by = next(ends, (self.n_samples, 0))
            got_s = self.seconds(start, stop)
            if got_s < least_s - JITTER_S:
                end = str(ended_by) if ended_by else "the block's end"
                got = f"{end} comes {in_seconds(got_s)} after {code}"
                yield self.warning(start, got, f"{in_seconds(least_s)} of {what}")


def in_seconds(seconds: float) -> str:
    """A duration for messages, to the millisecond."""
    return f"{round(seconds, 3):g} s"


def read_truth(
    track: "Track",
    rate: float,
    blocks: Iterable[tuple[int, Triggers]],
    angles: Angles = None,
) -> TruthEvent:
    """The truth of a whole session in one line. blocks: (samples, triggers) of each, in order."""
    reader = track.truth(rate, angles)
    events: list[TruthEvent] = []
    for number, (n_samples, triggers) in enumerate(blocks):
        events += reader.step(number, 0, n_samples, triggers)
    return _merged(events + reader.finish())


def _merged(events: Iterable[TruthEvent]) -> TruthEvent:
    whole: TruthEvent = {"kind": "truth"}
    for event in events:
        if "label" in event:
            labels = whole.setdefault("blocks", [])
            labels.extend([] for _ in range(event["block"] + 1 - len(labels)))
            labels[event["block"]].append(event["label"])
        for name in ("clips", "angles", "trials"):
            if name in event:
                whole.setdefault(name, []).extend(event[name])
    return whole
