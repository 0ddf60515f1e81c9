"""Verdicts: how a trial ended, what was reported and when, what counted, and why.

A verdict is given once its trial is over and its label is known, so everything in it may be shown.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tracks.common.angles import Rows
from tracks.common.reasons import Reason


@dataclass(frozen=True, slots=True)
class Answer:
    """One report, as the referee took it.

    result: as it was reported. class_name: the class that it names, None if it names none.
    when: the data used, in the unit of its track ("s", "sequences", "second"); None for a report
        that never came. right: True or False; None if it did not enter the score.
    reason: why it did not count; None if it is right.
    """

    result: object
    class_name: str | None
    when: float | None
    unit: str
    right: bool | None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one trial ended. Blocks and trials are counted from 0.

    label: the class that was asked for; None if it is unknown (then the trial is not scored).
    right: how the trial counts, one entry for each answer that its rules ask for.
    charged_s: the time that it is charged with (turing, erp).
    share: how much of it was right (emotion: 0 to 1) or its score (ecog: at most 100).
    void: whether it was taken out of the score; `reasons` has why. void_parts: how many of its
        seconds (emotion) or rows (ecog) were. session: the number of its session in the run.
    """

    subject: str
    block: int
    trial: int
    label: str | None
    answers: tuple[Answer, ...]
    scored: bool
    right: tuple[bool, ...] = ()
    charged_s: float | None = None
    share: float | None = None
    reasons: tuple[Reason, ...] = ()
    void: bool = False
    void_parts: int = 0
    session: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.block, self.trial

    def counts_as(self, other: "Verdict") -> bool:
        """Whether both count the same, for the same reasons; further reports make no difference."""
        return replace(self, answers=()) == replace(other, answers=())


@dataclass(frozen=True, slots=True)
class Refusal:
    """A report that belongs to no trial, or is malformed: refused, and it uses up nothing.

    after_packet: how many packets of the session had been received.
    """

    subject: str
    after_packet: int
    result: object
    reason: Reason


class Refusals:
    """The reports that were refused: all are counted, the last ones kept (a team may flood)."""

    KEPT = 1000

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.total = 0
        self._kept: deque[Refusal] = deque(maxlen=self.KEPT)

    def add(self, after_packet: int, result: object, reason: Reason) -> None:
        self.total += 1
        self._kept.append(Refusal(self.subject, after_packet, result, reason))

    def __iter__(self) -> Iterator[Refusal]:
        return iter(self._kept)


@dataclass(frozen=True, slots=True)
class OpenTrial:
    """The trial that runs now. It shows no label, and not whether an answer was right."""

    block: int
    trial: int
    used_s: float
    reports: int


@dataclass(frozen=True, slots=True)
class Traces:
    """Measured and reported rows of a judged trial, as `Track.traces` describes them."""

    measured: Rows
    reported: Rows


@dataclass(frozen=True, slots=True)
class RunStanding:
    """Totals of a run for a live display, of trials that are over only."""

    subject: str
    score: float
    unit: str
    trials: int
    right: int
    answers: int
    mean_used: float | None
    used_unit: str
    open: OpenTrial | None
    last: tuple[Verdict, ...]

    @property
    def accuracy(self) -> float | None:
        return self.right / self.answers if self.answers else None


def brief(result: object) -> str:
    """A result as it was reported, short enough for a line."""
    text = repr(result)
    return text if len(text) <= 40 else f"{text[:37]}..."


def scored(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Those that enter the score, block by block, in the order of their trials."""
    return sorted((v for v in verdicts if v.scored), key=lambda v: v.key)


def by_block(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """The scored verdicts of each block, blocks in order."""
    blocks: dict[int, list[Verdict]] = {}
    for verdict in scored(verdicts):
        blocks.setdefault(verdict.block, []).append(verdict)
    return list(blocks.values())


def mean(values: Sequence[float]) -> float:
    """The mean; 0 for no values."""
    return sum(values) / len(values) if values else 0.0
