"""The slow signal of a speller on a coarse grid, and its background activity as a vector AR process.

The grid has about 25 samples a second. A row is the last LAGS + 1 grid samples of all leads. The
covariance of rows gives the autoregression, so that its innovations are white in time and over leads.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import SignalInfo
from decoders.dsp import Array
from decoders.dsp.covariance import RecursiveCovariance, live_leads
from decoders.dsp.filters import CausalFilter, bandpass
from decoders.dsp.leads import plain_name
from decoders.dsp.spd import inverse_root
from decoders.erp.flashes import Limiter, choose_leads

BAND_HZ = (0.5, 12.0)
GRID_HZ = 25.0
LAGS = 4
SETTLE_S, START_S = 2.0, 10.0
"""Against transients of the amplifier: noise is learned from the first time on, and what was learned
before the second is replaced as soon as there is as much from after it."""
NOISE_MEMORY_S = 300.0
BATCH = 25
WHITE_SHARE = 0.002
"""Share of each lead's variance that is taken to be white, which keeps the inverse stable."""


@dataclass(frozen=True)
class Whitening:
    """filters ((LAGS + 1) * leads, leads): from a row to white innovations; sd_uv of each lead."""

    filters: Array
    sd_uv: Array

    @property
    def by_lag(self) -> Array:
        """(LAGS + 1, leads, leads)"""
        n = self.filters.shape[1]
        return self.filters.reshape(-1, n, n)


def whitening_of(cov: Array, n_samples: float, n_leads: int) -> Whitening:
    """The whitening of rows with this covariance, from about n_samples independent rows.

    The autoregression is shrunk towards a separable one (the same for all leads, times a covariance
    of leads), by the number of its coefficients against the number of rows. A flat lead is whitened
    to 0.
    """
    lagged = _lagged(cov, n_leads)
    live = live_leads(lagged[0])
    typical = float(np.median(np.diagonal(lagged[0])[live])) if live.any() else 1.0
    lagged = lagged * np.outer(live, live)
    lagged[0] += np.diag(np.where(live, WHITE_SHARE * np.diagonal(lagged[0]), typical))
    courses = np.einsum("kij,ji->k", lagged, np.linalg.inv(lagged[0])) / n_leads
    amount = LAGS * n_leads / (LAGS * n_leads + n_samples)
    drawn = (1 - amount) * lagged + amount * courses[:, None, None] * lagged[0]
    whole = np.block(
        [
            [drawn[j - i] if j >= i else drawn[i - j].T for j in range(LAGS + 1)]
            for i in range(LAGS + 1)
        ]
    )
    weights = np.linalg.solve(whole[n_leads:, n_leads:], whole[n_leads:, :n_leads])
    innovation = whole[:n_leads, :n_leads] - whole[:n_leads, n_leads:] @ weights
    root = inverse_root((innovation + innovation.T) / 2)
    filters = np.concatenate([root, -weights @ root])
    return Whitening(filters, np.sqrt(np.where(live, np.diagonal(lagged[0]), typical)))


def _lagged(cov: Array, n_leads: int) -> Array:
    """(LAGS + 1, leads, leads): E[x(t) x(t - k)'], the mean over the blocks of each lag."""
    blocks = cov.reshape(LAGS + 1, n_leads, LAGS + 1, n_leads)
    return np.array(
        [
            np.mean([blocks[i, :, i + k] for i in range(LAGS + 1 - k)], axis=0)
            for k in range(LAGS + 1)
        ]
    )


@dataclass(frozen=True, slots=True)
class GridSample:
    """row: the last grid samples, newest first; after_s: the time since each recent flash."""

    row: Array
    after_s: tuple[tuple[int, float], ...]
    """(group, seconds since its flash)"""


class SpellerSignal:
    """Turns the signal of one subject into grid samples, independent of how the stream is split."""

    def __init__(self, info: SignalInfo, response_s: float) -> None:
        self.places = choose_leads(info.leads)
        self.lead_names = tuple(plain_name(info.leads[place].name) for place in self.places)
        self.seen = 0
        """Samples of the session so far."""
        self._rate = info.rate
        self._every = max(1, round(info.rate / GRID_HZ))
        self.step_s = self._every / info.rate
        self._response = int(response_s * info.rate)
        n = len(self.places)
        self._filter = CausalFilter(bandpass(*BAND_HZ, info.rate, order=2), n)
        self._limiter = Limiter(n, info.rate, settle_s=SETTLE_S)
        self._recent: deque[Array] = deque(maxlen=LAGS + 1)
        self._flashes: deque[tuple[int, int]] = deque()
        memory = NOISE_MEMORY_S / self.step_s
        self._early = RecursiveCovariance((LAGS + 1) * n, memory)
        self._noise = RecursiveCovariance((LAGS + 1) * n, memory)
        self._rows: list[Array] = []

    def new_block(self) -> None:
        """Reset at a discontinuity."""
        self._filter.reset()
        self._recent.clear()
        self._flashes.clear()

    def feed(self, x: NDArray[np.floating], group: int | None = None) -> list[GridSample]:
        """Add x (n, all leads), with a flash of `group` at its first sample."""
        if group is not None:
            self._flashes.append((group, self.seen))
        y = self._limiter.step(self._filter.step(x[:, self.places]))
        first = -self.seen % self._every
        found = [
            sample
            for offset in range(first, len(y), self._every)
            for sample in self._grid(self.seen + offset, y[offset])
        ]
        self.seen += len(y)
        return found

    def _grid(self, position: int, values: Array) -> Sequence[GridSample]:
        self._recent.appendleft(values)
        if len(self._recent) <= LAGS:
            return ()
        row = np.concatenate(self._recent)
        self._learn(position, row)
        while self._flashes and position - self._flashes[0][1] > self._response:
            self._flashes.popleft()
        after = tuple((g, (position - at) / self._rate) for g, at in self._flashes)
        return (GridSample(row, after),)

    def _learn(self, position: int, row: Array) -> None:
        """Update the noise in batches, which is cheaper than row by row."""
        if position < SETTLE_S * self._rate:
            return
        early = position < START_S * self._rate
        self._rows.append(row)
        if len(self._rows) == BATCH or early:
            (self._early if early else self._noise).update(np.array(self._rows))
            self._rows = []

    def whitening(self) -> Whitening:
        """The whitening by the signal so far."""
        if self._rows:
            self._noise.update(np.array(self._rows))
            self._rows = []
        noise = self._noise if self._noise.weight >= self._early.weight else self._early
        # Neighbours in time are correlated: about every fourth row is new.
        return whitening_of(noise.value, noise.weight / 4, len(self.places))
