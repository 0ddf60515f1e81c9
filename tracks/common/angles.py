"""Joint angles: traces at 200 Hz with a row of eight joints every 5 ms, and their comparison."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracks.common.numbers import exact
from tracks.common.reasons import Reason
from tracks.errors import RuleError
from tracks.rules import Rules

Rows: TypeAlias = NDArray[np.float64]
RowMask: TypeAlias = NDArray[np.bool_]

JOINTS = ("sho", "elb", "wri", "mcp", "hip", "kne", "ank", "mtp")
"""Seed 003, section 1: shoulder, elbow, wrist, metacarpus; hip, knee, ankle, metatarsus."""

ANGLE_RATE = 200
ANGLE_LIMIT = 1e6
_PLAIN_NUMBERS = {int, float}


def read_rows(result: object) -> Rows | None:
    """A non-empty list of rows of 8 numbers within +-1e6; None for anything else."""
    rows = result.tolist() if isinstance(result, np.ndarray) else result
    if not isinstance(rows, list | tuple) or not rows:
        return None
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    if not all(map(_is_row, rows)):
        return None
    try:
        angles = np.array(rows, dtype=np.float64)
    except OverflowError:  # an int beyond all doubles
        return None
    return angles if (np.abs(angles) <= ANGLE_LIMIT).all() else None


def _is_row(row: object) -> bool:
    if not isinstance(row, list | tuple) or len(row) != len(JOINTS):
        return False
    return _PLAIN_NUMBERS.issuperset(map(type, row)) or all(map(_is_number, row))


def _is_number(value: object) -> bool:
    numbers = int | float | np.integer | np.floating
    return isinstance(value, numbers) and not isinstance(value, bool)


def row_at(sample: int, rate: Fraction) -> int:
    """floor(sample * 200 / rate), in whole numbers."""
    return int(sample * ANGLE_RATE // rate)


@dataclass(frozen=True, slots=True)
class AngleComparison:
    """How near a predicted trace is to the true one, averaged over the joints."""

    nrmse: float
    corr: float


def as_rows(values: Any) -> Rows:
    """Rows of a truth line as an array (rows, joints)."""
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        rows = np.empty(0)
    if rows.size == 0 and isinstance(values, list) and not values:
        return np.empty((0, len(JOINTS)))
    if rows.ndim != 2 or rows.shape[1] != len(JOINTS) or not np.isfinite(rows).all():
        raise RuleError(f"`angles` must be rows of {len(JOINTS)} finite numbers")
    return rows


def compare(
    truth: Rows, predicted: Rows, constant_nrmse: float, constant_corr: float
) -> AngleComparison:
    """NRMSE and CORR of two (rows, joints) arrays, each the mean over the joints."""
    joints = range(truth.shape[1])
    nrmse = [_nrmse(truth[:, j], predicted[:, j], constant_nrmse) for j in joints]
    corr = [_corr(truth[:, j], predicted[:, j], constant_corr) for j in joints]
    return AngleComparison(float(np.mean(nrmse)), float(np.mean(corr)))


def _nrmse(x: Rows, y: Rows, of_constant: float) -> float:
    """Seed 003, 3.3 (1): RMSE over the range of the truth."""
    span = float(x.max() - x.min())
    return float(np.sqrt(np.mean((x - y) ** 2))) / span if span else of_constant


def _corr(x: Rows, y: Rows, of_constant: float) -> float:
    """Seed 003, 3.3 (2): Pearson's. Rounding may give a constant a mean beside it: look first."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return of_constant
    dx, dy = x - x.mean(), y - y.mean()
    scale = float(np.sqrt(np.sum(dx**2)) * np.sqrt(np.sum(dy**2)))
    return float(np.sum(dx * dy)) / scale if scale else of_constant


class AngleMoments:
    """The same comparison in O(1) a row, for a live score: from sums, not from the traces."""

    def __init__(self) -> None:
        self._n = 0

    def add(self, truth: Rows, predicted: Rows) -> None:
        if not self._n:  # sums about the first value lose fewer digits than sums about 0
            self._x0, self._y0 = truth[0].copy(), predicted[0].copy()
            self._low, self._high = truth[0].copy(), truth[0].copy()
            self._sums = np.zeros((6, truth.shape[1]))
        x, y = truth - self._x0, predicted - self._y0
        self._sums += [v.sum(axis=0) for v in (x, y, x * x, y * y, x * y, (truth - predicted) ** 2)]
        self._low = np.minimum(self._low, truth.min(axis=0))
        self._high = np.maximum(self._high, truth.max(axis=0))
        self._n += len(truth)

    def compare(self, constant_nrmse: float, constant_corr: float) -> AngleComparison | None:
        if not self._n:
            return None
        x, y, xx, yy, xy, squares = self._sums
        span = self._high - self._low
        scale = np.sqrt(np.maximum(xx - x * x / self._n, 0) * np.maximum(yy - y * y / self._n, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            nrmse = np.where(span > 0, np.sqrt(squares / self._n) / span, constant_nrmse)
            corr = np.where(scale > 0, (xy - x * y / self._n) / scale, constant_corr)
        return AngleComparison(float(nrmse.mean()), float(corr.mean()))


class Trace:
    """A trace that grows row by row, and knows which rows were only held."""

    def __init__(self) -> None:
        self._rows = np.zeros((1024, len(JOINTS)))
        self._held = bytearray()  # 1 for each row that is the one before it, held
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def rows(self) -> Rows:
        return self._rows[: self._n]

    def append(self, rows: Rows) -> None:
        self._grow(len(rows))[:] = rows
        self._held += bytes(len(rows))

    def hold(self, row: Rows, n: int) -> None:
        """The same row n times."""
        self._grow(n)[:] = row
        self._held += b"\1" * n

    def held_in(self, start: int, stop: int) -> RowMask:
        """Which rows of a stretch were held; those beyond the end count as held."""
        held = np.ones(stop - start, dtype=np.bool_)
        known = np.frombuffer(self._held[start:stop], dtype=np.bool_)
        held[: len(known)] = known
        return held

    def _grow(self, n: int) -> Rows:
        """Room for n more rows, at the end."""
        start, self._n = self._n, self._n + n
        if self._n > len(self._rows):
            grown = np.zeros((max(self._n, 2 * len(self._rows)), self._rows.shape[1]))
            grown[:start] = self._rows[:start]
            self._rows = grown
        return self._rows[start : self._n]

    def replace_last(self, rows: Rows, given: int) -> None:
        """rows: in the place of the last ones; the first `given` of them are not held."""
        first = self._n - len(rows)
        self._rows[first : self._n] = rows
        self._held[first : first + given] = bytes(given)


class Prediction:
    """The reported trace: a packet adds rows of the last value, its first valid report replaces them."""

    def __init__(self, rate: Fraction, rules: Rules) -> None:
        self._rate = rate
        self._short_held = bool(rules["short_report_held"])
        self._long_cut = bool(rules["long_report_cut"])
        self._missing_held = bool(rules["missing_report_held"])
        initial = float(exact(rules["initial_angle"], "initial_angle"))
        self._initial = self._last = np.full(len(JOINTS), initial)
        self._trace = Trace()
        self._received = 0
        self._rows_of_packet = 0
        self._closed: Reason | None = Reason("no_packet")  # why no report is taken now

    def __len__(self) -> int:
        return len(self._trace)

    @property
    def rows(self) -> Rows:
        return self._trace.rows

    @property
    def seconds(self) -> float:
        """How much signal was received."""
        return float(self._received / self._rate)

    def packet(self, n: int) -> int:
        """n samples more; returns how many rows they hold."""
        first = row_at(self._received, self._rate)
        self._received += n
        self._rows_of_packet = row_at(self._received, self._rate) - first
        unreported = self._last if self._missing_held else self._initial
        self._trace.hold(unreported, self._rows_of_packet)
        self._closed = None
        return self._rows_of_packet

    def report(self, result: object) -> Reason | None:
        """Takes a report of the last packet; returns why if it is refused."""
        rows = read_rows(result)
        if rows is None:
            return Reason("not_rows", joints=len(JOINTS), limit=ANGLE_LIMIT)
        if self._closed is not None:
            return self._closed
        if not self._fits(len(rows)):
            return Reason("wrong_row_count", rows=len(rows), expected=self._rows_of_packet)
        self._take(rows)
        return None

    def filled(self, rows: int) -> Rows:
        """At least `rows` rows: the last value is held over those that were never received."""
        missing = max(0, rows - len(self._trace))
        return np.concatenate([self._trace.rows, np.tile(self._last, (missing, 1))])

    def unreported(self, start: int, kept: RowMask) -> tuple[Reason, ...]:
        """How many of the kept rows, from `start` on, have no report, and what is used instead."""
        held = int(np.sum(self._trace.held_in(start, start + len(kept)) & kept))
        total = int(np.sum(kept))
        if not held:
            return ()
        if self._missing_held:
            return (Reason("rows_held", rows=held, total=total),)
        return (Reason("rows_replaced", rows=held, total=total, value=float(self._initial[0])),)

    def _fits(self, rows: int) -> bool:
        """Whether so many rows are taken as a report of the packet."""
        if rows < self._rows_of_packet:
            return self._short_held
        return rows == self._rows_of_packet or self._long_cut

    def _take(self, rows: Rows) -> None:
        """Too few rows are held to the packet's end, rows too many dropped."""
        self._closed = Reason("packet_decided")
        n = self._rows_of_packet
        if n:
            held = np.minimum(np.arange(n), len(rows) - 1)
            self._trace.replace_last(rows[held], given=min(n, len(rows)))
            self._last = rows[held[-1]]
