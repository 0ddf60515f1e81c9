"""A row of the decoders' benchmark: one method on one person's (or group's) recordings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from _bench_stats import bootstrap

ScoreOf = Callable[[Sequence[Any]], float]
HIDDEN = ("units", "score_of")
"""Fields that are there to compare rows, not to be shown or written."""


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one set of recordings, streamed causally.

    data: which recordings, e.g. "EEGMMIDB S001". method: registry or reference name. ours: it is
    the decoder that we ship. score: by `measure` (e.g. "bits/min", "accuracy of 9", "AUC").
    low, high: its spread, as `spread` says (e.g. "95 % bootstrap over trials").
    n: how many things (trials, flashes, seconds) were judged. mean_ms, worst_ms: compute a packet.
    note: anything a reader must know. units: what the score is made of (trials, people), in an
    order that all methods of the data share, and score_of: how; so two methods can be compared pair
    by pair.
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
        units=tuple(units),
        score_of=score_of,
    )


def mean(values: Sequence[float]) -> float:
    """The score of units that are scores (or right and wrong) themselves."""
    return float(np.mean(values))
