"""The truth is what only the judge may know: the labels of a recording of the training format.

A reader is fed the triggers of a recording piece by piece and gives truth lines for the run log,
each as soon as it is known; a recording that breaks the format gets a `TruthError` that says where.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from tracks.common.codes import TRIAL_END, BlockCounter
from tracks.common.masks import Triggers
from tracks.errors import TruthError
from tracks.rules import Rules

if TYPE_CHECKING:
    from tracks.track import Track


Angles: TypeAlias = NDArray[Any] | None
TruthEvent: TypeAlias = dict[str, Any]


class TruthReader(ABC):
    """One session's labelled triggers in, truth lines out."""

    labels: str  # what a label is, in words

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
        """Nothing of a block goes on into the next: complain here of what is still open."""

    def step(self, block: int, start: int, n: int, triggers: Triggers) -> list[TruthEvent]:
        """The triggers of a piece: `start` is its first sample in the recording's block."""
        if block != self._piece:
            self.block_over()
            self._piece = block
        events: list[TruthEvent] = []
        for offset, code in sorted(triggers, key=_order):
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
        """Take over where a session stands, but nothing that was open: a gap may have swallowed its end."""
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
        seconds = float(position / self.rate)
        return f"block {self._piece}, sample {position} ({seconds:.3f} s)"

    def error(self, position: int, got: str, expected: str) -> TruthError:
        return TruthError(f"{self.place(position)}: {got}; expected {expected}")


def _order(trigger: tuple[int, int]) -> tuple[int, bool]:
    """By offset; at one and the same sample a trial ends before the next one begins."""
    return trigger[0], trigger[1] != TRIAL_END


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
