"""Affect features of a second of EEG: entropy in bands, and how the leads vary together.

Differential entropy of a normal signal is half the logarithm of its variance (and a constant),
lead by lead and band by band. The broad-band covariance, averaged over the last seconds, adds
the leads' relations as its matrix logarithm.
"""

import numpy as np
from numpy.typing import NDArray

from decoders.covariance import mend, shrink
from decoders.filter_bank import FilterBank
from decoders.filters import Array, CausalFilter, bandpass

BANDS_HZ = ((1.0, 4.0), (4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 47.0))
BROAD_HZ = (1.0, 45.0)
LIMIT_UV = 150.0
"""Blinks and jumps are limited, so that one of them does not make a second's entropy."""
SMALLEST_UV2 = 1e-2
COVARIANCE_MEMORY_S = 4.0
SHRINKAGE = 0.05


class AffectFeatures:
    """Fed samples of the chosen leads; `take` gives the features of those since the last take."""

    def __init__(self, rate: float, n_leads: int) -> None:
        self._n_leads = n_leads
        self._broad = CausalFilter(bandpass(*BROAD_HZ, rate, order=2), n_leads)
        self._bands = FilterBank([bandpass(*band, rate, order=3) for band in BANDS_HZ], n_leads)
        self._smooth: Array | None = None
        self._rows, self._columns = np.triu_indices(n_leads)
        self._forget()

    @property
    def size(self) -> int:
        return len(BANDS_HZ) * self._n_leads + len(self._rows)

    def push(self, x: NDArray[np.floating]) -> None:
        """x (n, leads), raw."""
        broad = np.clip(self._broad.step(x), -LIMIT_UV, LIMIT_UV)
        broad -= broad.mean(axis=1, keepdims=True)
        self._power += (self._bands.step(broad) ** 2).sum(axis=1)
        self._covariance += broad.T @ broad
        self._count += len(x)

    def take(self) -> Array:
        """(size,): what came since the last take."""
        n = max(self._count, 1)
        entropy = 0.5 * np.log(self._power / n + SMALLEST_UV2)
        now = self._covariance / n
        keep = np.exp(-1 / COVARIANCE_MEMORY_S)
        self._smooth = now if self._smooth is None else keep * self._smooth + (1 - keep) * now
        self._forget()
        return np.concatenate([entropy.ravel(), self._relations(self._smooth)])

    def skip(self) -> None:
        """Forget what came since the last take, and the seconds before."""
        self._smooth = None
        self._forget()

    def _relations(self, covariance: Array) -> Array:
        sound = shrink(mend(covariance), SHRINKAGE)
        power, axes = np.linalg.eigh(sound + SMALLEST_UV2 * np.eye(self._n_leads))
        log = (axes * np.log(power)) @ axes.T
        scale = np.where(self._rows == self._columns, 1.0, np.sqrt(2.0))
        return np.asarray(log[self._rows, self._columns] * scale)

    def _forget(self) -> None:
        self._power = np.zeros((len(BANDS_HZ), self._n_leads))
        self._covariance = np.zeros((self._n_leads, self._n_leads))
        self._count = 0
