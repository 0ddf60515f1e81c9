"""The noise beside a set of frequencies: how the leads vary together where no stimulus flickers."""

import numpy as np
from numpy.typing import NDArray

from decoders.covariance import mend, shrink
from decoders.demodulator import Array, Complex
from decoders.ring import Ring

WINDOW_S = 2.0
HOP_S = 1.0
SIDES_HZ = np.array([-2.0, -1.0, 1.0, 2.0])
"""Zeros of a 2 s window: a response at the frequency itself does not leak in there."""
MEMORY_WINDOWS = 60.0
READY_WINDOWS = 4
SHRINKAGE = 0.05


class NarrowbandNoise:
    """A robust running covariance of the Fourier coefficients beside each frequency.

    Windows of 2 s, one a second, wherever in the session: response and rest alike. A window with
    artefacts counts less (Tyler's weight), an old one too.
    """

    def __init__(self, frequencies_hz: NDArray[np.float64], rate: float, n_leads: int) -> None:
        window = round(WINDOW_S * rate)
        beside = frequencies_hz.ravel()[:, None] + SIDES_HZ
        waves = np.exp(-2j * np.pi * beside[..., None] * np.arange(window) / rate)
        self._waves: Complex = (waves / np.sqrt(window)).reshape(-1, window)
        self._shape = (*frequencies_hz.shape, n_leads, n_leads)
        self._ring = Ring(window, n_leads)
        self._hop = round(HOP_S * rate)
        self._next = window
        self._weight: Array = np.zeros(frequencies_hz.size)
        self._sum: Array = np.zeros((frequencies_hz.size, n_leads, n_leads))
        self.windows = 0

    @property
    def ready(self) -> bool:
        return self.windows >= READY_WINDOWS

    def push(self, x: Array) -> None:
        """Take in x (n, leads), any n."""
        while len(x):
            n = min(len(x), self._next - self._ring.count)
            self._ring.push(x[:n])
            x = x[n:]
            if self._ring.count == self._next:
                self._next += self._hop
                self._take_window()

    def covariance(self) -> Array:
        """(*frequencies, leads, leads): of coefficients scaled by 1 / sqrt(samples); invertible."""
        mean = self._sum / np.maximum(self._weight, 1e-12)[:, None, None]
        sound = [shrink(mend(cov), SHRINKAGE) for cov in mean]
        return np.array(sound).reshape(self._shape)

    def _take_window(self) -> None:
        n_leads = self._shape[-1]
        z = (self._waves @ self._ring.last(len(self._ring))).reshape(-1, len(SIDES_HZ), n_leads)
        weights = self._trust(z)
        power = (np.swapaxes(z, 1, 2) @ z.conj()).real / len(SIDES_HZ)
        keep = np.exp(-1 / MEMORY_WINDOWS)
        self._sum = keep * self._sum + weights[:, None, None] * power
        self._weight = keep * self._weight + weights
        self.windows += 1

    def _trust(self, z: Complex) -> Array:
        if not self.ready:
            return np.ones(len(z))
        inverse = np.linalg.inv(self.covariance().reshape(len(z), *self._shape[-2:]))
        size = np.einsum("ksc,kcd,ksd->k", z.conj(), inverse, z).real / (z.shape[1] * z.shape[2])
        return np.asarray(1 / np.maximum(size, 1.0), dtype=np.float64)
