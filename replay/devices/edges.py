"""A held trigger line is one trigger, on the sample where it rises."""

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
