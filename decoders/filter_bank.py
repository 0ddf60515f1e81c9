"""A filter bank: several causal filters of low order over the same leads, at little cost a packet.

At the size of a packet most of a filter's time is the call, and scipy's `lfilter` costs a quarter of
`sosfilt`. Its transfer functions are exact enough up to the orders used here (checked by a test);
steeper filters belong into `decoders.filters.CausalFilter`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from decoders.filters import Array, Hold


class FilterBank:
    """Feed it a stream in any pieces: the state is carried, and what is not finite is held."""

    def __init__(self, filters: Sequence[Array], n_leads: int) -> None:
        """filters: second-order sections, one set a filter; they begin settled on the first sample."""
        self._hold = Hold(n_leads)
        self._filters = [signal.sos2tf(sos) for sos in filters]
        self._states: list[Array] | None = None

    def step(self, x: NDArray[np.floating]) -> Array:
        """x (n, leads) -> (filters, n, leads)."""
        finite = self._hold.step(x)
        if len(finite) == 0:
            return np.zeros((len(self._filters), *finite.shape))
        if self._states is None:
            self._states = [signal.lfilter_zi(b, a)[:, None] * finite[0] for b, a in self._filters]
        out = np.empty((len(self._filters), *finite.shape))
        for number, (b, a) in enumerate(self._filters):
            out[number], self._states[number] = signal.lfilter(
                b, a, finite, axis=0, zi=self._states[number]
            )
        return out
