"""Rows of the decoders' benchmark, their confidence intervals, and paired comparisons between rows.

Two methods are "ahead" or "behind" only where the 95 % interval of their paired difference excludes 0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
DRAWS = 500
ScoreOf = Callable[[Sequence[Any]], float]
FEWEST_POOLED = 3
HIDDEN = ("units", "score_of")
"""Fields for comparing rows, not shown or written."""


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one set of recordings, streamed causally.

    data: which recordings, e.g. "EEGMMIDB S001". method: registry or reference name. ours: it is
    the decoder that we ship. score: by `measure` (e.g. "bits/min", "accuracy of 9", "AUC").
    low, high: the interval described by `spread` (e.g. "95 % bootstrap over trials").
    n: how many things (trials, flashes, seconds) were judged. mean_ms, worst_ms: compute a packet.
    units: what the score is computed from (trials, people), in the same order for all methods, and
    score_of: how; so that two methods can be compared in pairs. beside: the only method of ours that a
    reference is compared with, where others are given more or less than it is; empty: all of ours.
    """

    track: str
    data: str
    method: str
    ours: bool
    measure: str
    score: float
    low: float
    high: float
    spread: str
    n: int
    mean_ms: float = float("nan")
    worst_ms: float = float("nan")
    note: str = ""
    beside: str = ""
    units: Sequence[Any] = field(default=(), repr=False)
    score_of: ScoreOf | None = field(default=None, repr=False)


def row_of(
    units: Sequence[Any],
    score_of: ScoreOf,
    unit: str,
    *,
    track: str,
    data: str,
    method: str,
    ours: bool,
    measure: str,
    n: int | None = None,
    compute_s: Sequence[float] = (),
    note: str = "",
    beside: str = "",
) -> Row:
    """The row of a score over units (of which `unit` is the plural), with its bootstrap interval.

    n: how many things were judged, where that is not the number of units.
    """
    low, high = bootstrap(units, score_of)
    return Row(
        track=track,
        data=data,
        method=method,
        ours=ours,
        measure=measure,
        score=score_of(units),
        low=low,
        high=high,
        spread=f"95 % bootstrap over {unit}",
        n=len(units) if n is None else n,
        mean_ms=1e3 * float(np.mean(compute_s)) if len(compute_s) else float("nan"),
        worst_ms=1e3 * float(np.max(compute_s)) if len(compute_s) else float("nan"),
        note=note,
        beside=beside,
        units=tuple(units),
        score_of=score_of,
    )


def mean(values: Sequence[float]) -> float:
    """The score of units that are scores (or right and wrong) themselves."""
    return float(np.mean(values))


POOLED = "all recordings"
"""The data of a row that is a mean over recordings."""


def over_all(rows: Sequence[Row]) -> list[Row]:
    """One more row for each method and measure that several recordings have: their mean, with the
    recordings as units."""
    found = []
    for track, measure in dict.fromkeys((row.track, row.measure) for row in rows):
        own = [row for row in rows if (row.track, row.measure) == (track, measure)]
        for method in dict.fromkeys(row.method for row in own):
            pooled = [row for row in own if row.method == method]
            if len(pooled) >= FEWEST_POOLED:
                found.append(_pooled(pooled))
    return found


def _pooled(rows: Sequence[Row]) -> Row:
    worst = [row.worst_ms for row in rows]
    scores = [row.score for row in rows]
    whole = row_of(
        scores,
        mean,
        "recordings",
        track=rows[0].track,
        data=POOLED,
        method=rows[0].method,
        ours=rows[0].ours,
        measure=rows[0].measure,
        note=f"worst {min(scores):.3f}, best {max(scores):.3f}",
        beside=rows[0].beside,
    )
    return replace(whole, mean_ms=mean([row.mean_ms for row in rows]), worst_ms=max(worst))


def bootstrap(
    items: Sequence[Item], score: Callable[[Sequence[Item]], float], seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of the score over draws of the items."""
    return _percentiles([score([items[i] for i in pick]) for pick in _picks(len(items), seed)])


def paired_bootstrap(
    ours: Sequence[Item],
    theirs: Sequence[Item],
    score: Callable[[Sequence[Item]], float],
    seed: int = 0,
) -> tuple[float, float]:
    """The 95 % interval of score(ours) - score(theirs), with the same units drawn for both."""
    return _percentiles(
        [
            score([ours[i] for i in pick]) - score([theirs[i] for i in pick])
            for pick in _picks(len(ours), seed)
        ]
    )


def _picks(n: int, seed: int) -> Iterator[NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    yield from rng.integers(n, size=(DRAWS, n))


def _percentiles(scores: Sequence[float]) -> tuple[float, float]:
    finite = np.array([score for score in scores if np.isfinite(score)])
    if not len(finite):
        return float("nan"), float("nan")
    low, high = np.percentile(finite, (2.5, 97.5))
    return float(low), float(high)


FEWEST_PAIRS = 3
"""The least number of pairs for an interval."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """difference: our score less theirs; low, high: its interval (nan where there is none)."""

    track: str
    data: str
    measure: str
    ours: str
    theirs: str
    difference: float
    low: float
    high: float
    how: str

    @property
    def word(self) -> str:
        if self.low != self.low:
            return "too little to be compared with"
        if self.low > 0:
            return "ahead of"
        return "BEHIND" if self.high < 0 else "level with"

    def __str__(self) -> str:
        between = f"95 % {self.low:+.3f} to {self.high:+.3f}" if self.low == self.low else "no"
        return (
            f"{self.data}, {self.measure}: {self.ours} is {self.word} {self.theirs}: "
            f"{self.difference:+.3f} ({between}{self.how})"
        )


def verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    """For each of our rows and each reference on the same data and measure, recording by recording."""
    for ours, theirs in _pairs([row for row in rows if row.data != POOLED]):
        if ours.data == theirs.data:
            yield compare(ours, theirs)


def pooled_verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Each method of ours against each reference, with the recordings that both have as pairs.

    Pairs of methods with fewer than FEWEST_POOLED recordings in common are left out.
    """
    scores: dict[tuple[str, str, str, str], dict[str, tuple[float, float]]] = {}
    for ours, theirs in _pairs([row for row in rows if row.data != POOLED]):
        if ours.data == theirs.data:
            key = (ours.track, ours.measure, ours.method, theirs.method)
            scores.setdefault(key, {})[ours.data] = (ours.score, theirs.score)
    return [
        _pooled_verdict(*key, list(found.values()))
        for key, found in scores.items()
        if len(found) >= FEWEST_POOLED
    ]


def _pooled_verdict(
    track: str, measure: str, ours: str, theirs: str, scores: Sequence[tuple[float, float]]
) -> Verdict:
    own, other = zip(*scores, strict=True)
    low, high = paired_bootstrap(own, other, mean)
    difference = mean(own) - mean(other)
    how = f" over {len(scores)} recordings"
    return Verdict(track, POOLED, measure, ours, theirs, difference, low, high, how)


def _pairs(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """(ours, reference) of one track and measure."""
    for ours in (row for row in rows if row.ours):
        for theirs in rows:
            same = (theirs.track, theirs.measure) == (ours.track, ours.measure)
            if same and not theirs.ours and theirs.beside in ("", ours.method):
                yield ours, theirs


def compare(ours: Row, theirs: Row) -> Verdict:
    """Compare in pairs if both rows have the same units, else by their own intervals."""
    low, high, how = _interval(ours, theirs)
    return Verdict(
        track=ours.track,
        data=ours.data,
        measure=ours.measure,
        ours=ours.method,
        theirs=theirs.method,
        difference=ours.score - theirs.score,
        low=low,
        high=high,
        how=how,
    )


def _interval(ours: Row, theirs: Row) -> tuple[float, float, str]:
    n = len(ours.units)
    if ours.score_of is None or n != len(theirs.units) or n == 0:
        return ours.low - theirs.high, ours.high - theirs.low, ", not paired"
    if n < FEWEST_PAIRS:
        return float("nan"), float("nan"), f" interval, {n} pairs"
    low, high = paired_bootstrap(ours.units, theirs.units, ours.score_of)
    return low, high, f" over {n} pairs"
