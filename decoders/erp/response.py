"""Responses to flashes as sums of bumps in time, and what a trial tells about them.

The signal is a sum of one response to every flash and one more to each flash of the character that
is looked at. Responses overlap, so they are estimated together: a trial is summarised by the products
of its design (which bump of which group is active at each grid sample) with itself and with the
signal. The products with past grid samples make it possible to whiten the signal afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoders.dsp import Array
from decoders.erp.noise import LAGS, GridSample, Whitening
from decoders.erp.stopping import SpellerLayout

CENTRES_S = np.arange(0.05, 0.73, 0.055)
WIDTH_S = 0.042
RESPONSE_S = 0.85
"""A response is over by then."""
N_BUMPS = len(CENTRES_S)
BATCH = 12
FINE_S = 0.005
BASIS_RIDGE = 1e-3


def bumps(after_s: Array) -> Array:
    """(n, bumps): the bumps at these times after a flash."""
    basis: Array = np.exp(-0.5 * ((after_s[:, None] - CENTRES_S) / WIDTH_S) ** 2)
    return basis


def shift(by_s: float) -> Array:
    """(bumps, bumps): the weights of a response that comes later by by_s, from its own weights."""
    times = np.arange(-0.3, 1.2, FINE_S)
    basis = bumps(times)
    gram = basis.T @ basis
    gram += BASIS_RIDGE * float(np.trace(gram)) / N_BUMPS * np.eye(N_BUMPS)
    return np.asarray(np.linalg.solve(gram, basis.T @ bumps(times - by_s)), dtype=np.float64)


def flash_gram(step_s: float) -> Array:
    """(bumps, bumps): products of the bumps of one flash, summed over the grid."""
    basis = bumps(np.arange(0, RESPONSE_S, step_s))
    return basis.T @ basis


def whitened(response: Array, whitening: Whitening, lags: Sequence[Array]) -> Array:
    """The innovations (bumps, leads) of a response (bumps, leads) in microvolts.

    lags: `shift` by each lag of the grid.
    """
    pairs = zip(lags, whitening.by_lag, strict=True)
    return np.asarray(sum(moved @ response @ by_lead for moved, by_lead in pairs))


class TrialSums:
    """Products of the design of one trial: with itself and with the signal.

    signal (groups, bumps, (LAGS + 1) * leads), gram (groups, bumps, groups, bumps).
    """

    def __init__(self, n_groups: int, n_leads: int) -> None:
        self.signal: Array = np.zeros((n_groups, N_BUMPS, (LAGS + 1) * n_leads))
        self.gram: Array = np.zeros((n_groups, N_BUMPS, n_groups, N_BUMPS))
        self._waiting: list[GridSample] = []

    def add(self, samples: Sequence[GridSample]) -> None:
        """Add grid samples; those without a recent flash tell nothing."""
        self._waiting += [sample for sample in samples if sample.after_s]
        while len(self._waiting) >= BATCH:  # in equal parts, for any split of the stream
            self._absorb(self._waiting[:BATCH])
            del self._waiting[:BATCH]

    def only(self, n: int) -> "TrialSums":
        """The sums of the first n groups."""
        part = TrialSums(0, 0)
        part.signal, part.gram = self.signal[:n], self.gram[:n, :, :n]
        return part

    def update(self) -> None:
        """Bring the products up to date."""
        if self._waiting:
            self._absorb(self._waiting)
            self._waiting = []

    def _absorb(self, samples: Sequence[GridSample]) -> None:
        design = np.zeros((len(samples), len(self.signal), N_BUMPS))
        for row, sample in zip(design, samples, strict=True):
            active = bumps(np.array([after for _, after in sample.after_s]))
            for (group, _), values in zip(sample.after_s, active, strict=True):
                row[group] += values
        flat = design.reshape(len(design), -1)
        rows = np.array([sample.row for sample in samples])
        self.signal += (flat.T @ rows).reshape(self.signal.shape)
        self.gram += (flat.T @ flat).reshape(self.gram.shape)


@dataclass(frozen=True)
class Contrasts:
    """How much each group's flashes count for each character: (characters, groups).

    The share of targets is subtracted, so that the response common to all flashes and the targets'
    own are nearly orthogonal.
    """

    weights: Array

    @staticmethod
    def of(layout: SpellerLayout) -> "Contrasts":
        return Contrasts(layout.membership - layout.membership.mean())

    def grams(self, gram: Array) -> Array:
        """(characters, bumps, bumps) from a trial's gram."""
        half = np.tensordot(self.weights, gram, axes=(1, 0))  # characters, bumps, groups, bumps
        return np.asarray(np.einsum("skgl,sg->skl", half, self.weights, optimize=True))
