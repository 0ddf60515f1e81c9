"""Masks remove from a labelled recording what a decoder may not see, before it goes on the wire.

`step(samples, triggers)` takes any piece of the recording, in order, and returns the piece that is
shown. It never looks ahead, never changes its input, and returns the same array if nothing is hidden.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[np.float32]
Triggers: TypeAlias = tuple[tuple[int, int], ...]
"""(offset in the packet, code), in order of their offset; several may share a sample."""


class Mask(Protocol):
    """One session's mask; it keeps what it must know from one piece to the next."""

    def step(self, samples: Samples, triggers: Triggers) -> tuple[Samples, Triggers]:
        """samples: (n, leads); triggers: (offset in the piece, code)."""


class CodeMask:
    """A mask that changes triggers only; the base class shows all of them."""

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate

    def show(self, code: int) -> int | None:
        """The code that is shown in its place; None for none."""
        return code

    def step(self, samples: Samples, triggers: Triggers) -> tuple[Samples, Triggers]:
        shown = ((offset, self.show(int(code))) for offset, code in triggers)
        return samples, tuple((offset, code) for offset, code in shown if code is not None)


def zeroed_outside(samples: Samples, windows: Sequence[tuple[int, int]]) -> Samples:
    """The samples within the windows (start <= stop), which do not overlap; zeros elsewhere."""
    if sum(stop - start for start, stop in windows) == len(samples):
        return samples
    shown: Samples = np.zeros(samples.shape, dtype=samples.dtype)
    for start, stop in windows:
        shown[start:stop] = samples[start:stop]
    return shown
