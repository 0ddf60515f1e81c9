"""A prediction is the trace of angles that a team's reports make, packet by packet (ecog)."""

from fractions import Fraction

import numpy as np

from tracks.angles import ANGLE_LIMIT, JOINTS, Rows, Trace, read_rows, row_at
from tracks.exact import exact
from tracks.rules import Rules


class Prediction:
    """A packet adds its rows, held; the first well-formed report of the packet takes their place."""

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
        self._closed = "no packet"  # why no report is taken now; empty where one is

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
        self._closed = ""
        return self._rows_of_packet

    def report(self, result: object) -> str:
        """Takes a report of the last packet; or says why not."""
        rows = read_rows(result)
        if rows is None:
            return f"not rows of {len(JOINTS)} numbers within +-{ANGLE_LIMIT:g}"
        if self._closed:
            return self._closed
        if not self._fits(len(rows)):
            return f"{len(rows)} rows; this packet has {self._rows_of_packet}"
        self._take(rows)
        return ""

    def filled(self, rows: int) -> Rows:
        """So many rows at least: the last value held over those that were never received."""
        missing = max(0, rows - len(self._trace))
        return np.concatenate([self._trace.rows, np.tile(self._last, (missing, 1))])

    def unreported(self, start: int, stop: int) -> str:
        """How many rows of a stretch have no report, and what stands there; empty where all have."""
        held = self._trace.held_in(start, stop)
        value = (
            "the last value held" if self._missing_held else f"{self._initial[0]:g} in their place"
        )
        return f"{held} of {stop - start} rows without a report: {value}" if held else ""

    def _fits(self, rows: int) -> bool:
        """Whether so many rows are taken as a report of the packet."""
        if rows < self._rows_of_packet:
            return self._short_held
        return rows == self._rows_of_packet or self._long_cut

    def _take(self, rows: Rows) -> None:
        """Too few rows are held to the packet's end, rows too many dropped."""
        self._closed = "the packet has its report: the first one counts"
        n = self._rows_of_packet
        if n:
            held = np.minimum(np.arange(n), len(rows) - 1)
            self._trace.replace_last(rows[held], given=min(n, len(rows)))
            self._last = rows[held[-1]]
