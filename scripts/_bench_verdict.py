"""A verdict of the decoders' benchmark: is ours ahead of a reference, level with it, or behind?

Both saw the same trials (people, letters), so these are drawn in pairs, and the word is only "ahead" or
"behind" where the 95 % interval of the difference leaves out 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from _bench_row import Row
from _bench_stats import paired_bootstrap

FEWEST_PAIRS = 3
"""With less there is nothing to draw from."""


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
    """For each of our rows and each reference on the same data and measure."""
    for ours in (row for row in rows if row.ours):
        for theirs in rows:
            if not theirs.ours and (theirs.data, theirs.measure) == (ours.data, ours.measure):
                yield compare(ours, theirs)


def compare(ours: Row, theirs: Row) -> Verdict:
    """Pair by pair where both rows say what they are made of, else by whether their own intervals
    leave each other out."""
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
