"""A held trigger line is one trigger, on the sample where it rises."""

import math

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Triggers


class Edges:
    """Turns a line of codes, one a sample, into triggers; chunks may cut the line anywhere.

    hold=True (the default): a code that lasts over several samples is one trigger, and so the same
    code twice in a row needs a 0 in between. hold=False: each sample that is not 0 is a trigger.
    """

    def __init__(self, hold: bool = True) -> None:
        self._hold = hold
        self._last = 0

    def step(self, codes: NDArray[np.int64]) -> Triggers:
        """codes: (n,), 0 where there is none. Returns (offset, code) in order."""
        if not len(codes):
            return ()
        before, self._last = self._last, int(codes[-1])
        if not codes.any():
            return ()
        rises = codes != 0
        if self._hold:
            rises &= codes != np.concatenate(([before], codes[:-1]))
        return tuple((int(i), int(codes[i])) for i in np.flatnonzero(rises))

    def rest(self) -> None:
        """The line was at 0, though nobody sent that."""
        self._last = 0


class TimedEdges:
    """The same for a line whose pieces say when they were taken, and which may be sent twice.

    rest_ms: after a pause that long the line was at rest; infinite where it is sent all the time.
    """

    def __init__(self, hold: bool = True, rest_ms: float = math.inf) -> None:
        self._edges = Edges(hold)
        self._rest_ms = rest_ms
        self._next_ms = -math.inf

    def step(
        self, codes: NDArray[np.int64], start_ms: float, step_ms: float
    ) -> list[tuple[float, int]]:
        """(time, code) of each trigger; what was there already is passed over."""
        if start_ms - self._next_ms >= self._rest_ms:
            self._edges.rest()
        known = math.ceil(max(0.0, self._next_ms - start_ms) / step_ms)
        self._next_ms = max(self._next_ms, start_ms + len(codes) * step_ms)
        start_ms += known * step_ms
        rises = self._edges.step(codes[known:])
        return [(start_ms + i * step_ms, code) for i, code in rises]
