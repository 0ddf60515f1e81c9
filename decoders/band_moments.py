"""Band moments: the leads' second moments in a few bands, added up while a trial runs."""

import numpy as np
from numpy.typing import NDArray

from decoders.covariance import Array
from decoders.filters import CausalFilter, Decimator, bandpass, decimation

WORKING_RATE_HZ = 125.0
"""More than twice the highest band: the signal is decimated to at least this before all else."""


class BandMoments:
    """Sums of x x' in each band since `begin`; the filters begin afresh with each trial.

    What stands between trials may be zeroed by the rules, and a jump from there would ring.
    """

    def __init__(
        self, rate: float, places: list[int], bands_hz: tuple[tuple[float, float], ...]
    ) -> None:
        self._places = places
        q = decimation(rate, WORKING_RATE_HZ)
        self._decimator = Decimator(q, len(places))
        widths_hz = np.array([high - low for low, high in bands_hz])
        self.freedom: Array = np.minimum(2 * widths_hz * q / rate, 1.0)
        """(bands,): what share of a band's samples is independent; a narrow band's repeat
        themselves."""
        designs = [bandpass(low, high, rate / q) for low, high in bands_hz]
        self._filters = [CausalFilter(sos, len(places)) for sos in designs]
        self.begin()

    def begin(self) -> None:
        """A trial begins with the next sample."""
        self._decimator.reset()
        for band_filter in self._filters:
            band_filter.reset()
        self.forget()

    def forget(self) -> None:
        """The sums begin again with the next sample; the filters run on."""
        n = len(self._places)
        self.sums: Array = np.zeros((len(self._filters), n, n))
        self.count = 0

    def add(self, x: NDArray[np.floating]) -> None:
        """x (n, all leads)."""
        kept = self._decimator.step(x[:, self._places])
        self.count += len(kept)
        for band, band_filter in enumerate(self._filters):
            y = band_filter.step(kept)
            self.sums[band] += y.T @ y
