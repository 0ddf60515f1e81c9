"""A curve of accuracy against data used: what a decoder gains by waiting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.stats import binomtest

from tracks.verdict import Verdict

POINTS: Final = 8


@dataclass(frozen=True, slots=True)
class AccuracyPoint:
    """Answers that used about as much data: how many, how many right, and a 95 % interval."""

    used: float
    answers: int
    right: int
    low: float
    high: float

    @property
    def accuracy(self) -> float:
        return self.right / self.answers


def accuracy_curve(verdicts: Sequence[Verdict]) -> list[AccuracyPoint]:
    """About POINTS groups of answers, each as large as the others, by the data they used."""
    answers = sorted(
        (float(answer.when), answer.right)
        for verdict in verdicts
        if verdict.scored
        for answer in verdict.answers
        if answer.when is not None and answer.right is not None
    )
    size = max(1, -(-len(answers) // POINTS))
    groups: list[list[tuple[float, bool]]] = []
    for answer in answers:
        # Answers of the same moment (mi: the three windows) stay together.
        if groups and (len(groups[-1]) < size or groups[-1][-1][0] == answer[0]):
            groups[-1].append(answer)
        else:
            groups.append([answer])
    return [_point(group) for group in groups]


def _point(group: Sequence[tuple[float, bool]]) -> AccuracyPoint:
    right = sum(1 for _, was_right in group if was_right)
    low, high = wilson(right, len(group))
    return AccuracyPoint(sum(used for used, _ in group) / len(group), len(group), right, low, high)


def wilson(right: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which holds for few answers too."""
    interval = binomtest(right, n).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)
