"""Statistics of a report: paired tests between teams, and accuracy against data used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, permutation_test

from tracks.common.verdicts import Verdict

TrialKey = tuple[str, int, int]
"""(subject, block, trial)."""

FLIPS: Final = 9999
SEED: Final = 20240611

FloatVector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TeamComparison:
    """Team `a` against team `b`.

    trials: how many both teams have. difference: mean of a's trial scores minus b's.
    p: of a two-sided paired permutation test. p_holm: corrected for all pairs of the track.
    """

    a: str
    b: str
    trials: int
    difference: float
    p: float
    p_holm: float


def trial_scores(verdicts: Sequence[Verdict]) -> dict[TrialKey, float]:
    """The score of each scored trial: its share, or the share of its answers that are right."""
    scored = (verdict for verdict in verdicts if verdict.scored)
    return {(v.subject, v.block, v.trial): _trial_score(v) for v in scored}


def _trial_score(verdict: Verdict) -> float:
    if verdict.share is not None:
        return float(verdict.share)
    return sum(verdict.right) / len(verdict.right) if verdict.right else 0.0


def compare(teams: Mapping[str, Mapping[TrialKey, float]]) -> list[TeamComparison]:
    """All pairs of teams that share trials, smallest p first."""
    pairs = [_pair(a, b, teams[a], teams[b]) for a, b in combinations(teams, 2)]
    return holm([pair for pair in pairs if pair is not None])


def _pair(
    a: str, b: str, of_a: Mapping[TrialKey, float], of_b: Mapping[TrialKey, float]
) -> TeamComparison | None:
    shared = sorted(of_a.keys() & of_b.keys())
    if not shared:
        return None
    a_scores, b_scores = [of_a[key] for key in shared], [of_b[key] for key in shared]
    difference = (sum(a_scores) - sum(b_scores)) / len(shared)
    p = sign_flip_p(a_scores, b_scores)
    return TeamComparison(a, b, len(shared), difference, p, p)


def sign_flip_p(of_a: Sequence[float], of_b: Sequence[float]) -> float:
    """Two-sided p of the mean difference, by a paired permutation test.

    Under the null hypothesis a trial's two results can be exchanged. All exchanges are tried if they
    are few, FLIPS random ones otherwise.
    """
    if len(of_a) == 1:  # SciPy wants two; both exchanges are equally far apart
        return 1.0
    result = permutation_test(
        (np.asarray(of_a, dtype=float), np.asarray(of_b, dtype=float)),
        _mean_difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=FLIPS,
        batch=1000,
        random_state=np.random.default_rng(SEED),
    )
    return float(result.pvalue)


def _mean_difference(a: FloatVector, b: FloatVector, axis: int = -1) -> FloatVector:
    return np.asarray(np.mean(a, axis=axis) - np.mean(b, axis=axis))


def holm(comparisons: Sequence[TeamComparison]) -> list[TeamComparison]:
    """The comparisons by p, corrected for multiple tests (Holm 1979)."""
    ordered = sorted(comparisons, key=lambda c: c.p)  # stable: equal p stay in the order of ranks
    corrected, least = [], 0.0
    for index, comparison in enumerate(ordered):
        least = max(least, min(1.0, comparison.p * (len(ordered) - index)))
        corrected.append(replace(comparison, p_holm=least))
    return corrected


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
    """About POINTS groups of equally many answers, by the data that they used."""
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
    """The 95 % interval of a share (Wilson 1927), which is valid for few answers too."""
    interval = binomtest(right, n).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)
