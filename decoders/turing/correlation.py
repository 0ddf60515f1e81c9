"""Canonical-correlation evidence of a flicker response: needs no noise and no response from before.

The first canonical correlation of a trial's leads with the sines and cosines of a stimulus (CCA) is
compared with those at frequencies beside it, which show what the trial's background gives by chance.
"""

import numpy as np

from decoders.dsp import Array, ComplexArray
from decoders.dsp.covariance import mend, shrink
from decoders.dsp.spd import inverse_root

SHAPE = 0.3
"""Of the Beta distribution that p-values are assumed to have where there is a response."""
GUMBEL_MEAN = 0.5772156649
SHRINKAGE = 0.01


class CanonicalEvidence:
    """Running moments of the leads in a trial, to correlate with Fourier sums of the same samples."""

    def __init__(self, n_leads: int) -> None:
        self._n_leads = n_leads
        self.restart()

    def restart(self) -> None:
        self._moment: Array = np.zeros((self._n_leads, self._n_leads))
        self._count = 0

    def push(self, x: Array) -> None:
        """Add samples x (n, leads), any n."""
        self._moment += x.T @ x
        self._count += len(x)

    def log_odds(self, sums: ComplexArray) -> Array:
        """(frequencies,): log odds of a response against none.

        sums (frequencies, harmonics, 1 + beside, leads): Fourier sums of the same samples, at the
        stimulus first, then beside it. The correlations beside it have a Gumbel distribution, as
        maxima have; by it the stimulus's has a p-value, and that a Bayes factor (Sellke 2001).
        """
        squares = self.correlations(sums) ** 2
        beside = squares[:, 1:]
        scale = max(float(beside.std()) * np.sqrt(6) / np.pi, 1e-6)
        usual = beside.mean(axis=1) - GUMBEL_MEAN * scale
        log_p = -np.logaddexp(0.0, (squares[:, 0] - usual) / scale)
        return np.asarray(np.log(SHAPE) - (1 - SHAPE) * log_p)

    def correlations(self, sums: ComplexArray) -> Array:
        """(frequencies, 1 + beside): the first canonical correlation at each."""
        count = max(self._count, 1)
        whitening = inverse_root(shrink(mend(self._moment / count), SHRINKAGE))
        white = np.swapaxes(sums @ whitening, 1, 2) * np.sqrt(2) / count
        waves = np.concatenate([white.real, white.imag], axis=2)  # ..., 2 * harmonics, leads
        gram = waves @ np.swapaxes(waves, -1, -2)
        return np.asarray(np.sqrt(np.clip(np.linalg.eigvalsh(gram)[..., -1], 0.0, 1.0)))
