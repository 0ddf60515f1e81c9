"""Separable noise: the covariance of a window (times, leads) that is nearly one of times by one of leads.

A window of 13 times and 20 leads has 34,000 covariances and two such factors only 300, so after ten
seconds of signal the factors are known and the rest is not. The sample's covariance is therefore drawn
towards their product, and only as far as chance alone explains that it differs from it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from decoders.covariance import Array, shrink

ROUNDS = 2
"""Of the factors' fit, each given the other; it converges at once."""


@dataclass(frozen=True)
class Separable:
    """The inverse roots of the two factors: together they whiten a window, as far as it is separable."""

    times: Array
    leads: Array

    @classmethod
    def of(cls, cov: Array, n_leads: int) -> "Separable":
        """The factors of cov (times * leads, the same), which must be positive definite."""
        n_times = len(cov) // n_leads
        blocks = cov.reshape(n_times, n_leads, n_times, n_leads)
        times = np.eye(n_times)
        for _ in range(ROUNDS):
            weights = np.linalg.inv(times)
            leads = np.einsum("aibj,ab->ij", blocks, weights, optimize=True) / n_times
            weights = np.linalg.inv(leads)
            times = np.einsum("aibj,ij->ab", blocks, weights, optimize=True) / n_leads
        return cls(_inverse_root(times), _inverse_root(leads))

    def whiten(self, columns: Array) -> Array:
        """The columns (times * leads, any) as they look where separable noise is white."""
        n_times, n_leads = len(self.times), len(self.leads)
        by_lead = self.leads @ columns.reshape(n_times, n_leads, -1)
        whole = self.times @ by_lead.reshape(n_times, -1)
        return np.asarray(whole.reshape(columns.shape))


def whitener_of(cov: Array, n_samples: float, n_leads: int, signals: Array, floor: float) -> Array:
    """(kept, times * leads): takes a window to where the noise is white and only what the columns of
    `signals` span is left.

    cov is the covariance of about n_samples windows that are independent of each other.
    floor: the share of plain white noise that is added in any case.
    """
    sound = shrink(cov, floor)
    factors = Separable.of(sound, n_leads)
    rest = factors.whiten(factors.whiten(sound).T)
    rest *= len(rest) / float(np.trace(rest))
    drawn = shrink(rest, max(_chance_share(rest, n_samples), floor))
    root = linalg.cholesky(drawn, lower=True)
    white = linalg.solve_triangular(root, factors.whiten(signals), lower=True)
    kept, _ = linalg.qr(white, mode="economic")
    return factors.whiten(linalg.solve_triangular(root, kept, lower=True, trans="T")).T


def _chance_share(rest: Array, n_samples: float) -> float:
    """How much of what `rest` (of mean variance 1) differs from the identity is chance: 0 to 1.

    Ledoit and Wolf's optimal shrinkage, with the error that normal samples would have.
    """
    p = len(rest)
    off = float(np.sum((rest - np.eye(p)) ** 2))
    chance = p * (p + 1) / max(n_samples, 1.0)
    return 1.0 if off <= chance else chance / off


def _inverse_root(cov: Array) -> Array:
    power, axes = np.linalg.eigh(cov)
    power = np.maximum(power, 1e-12 * power.max())
    return np.asarray((axes / np.sqrt(power)) @ axes.T)
