"""Covariances of leads: running estimates, shrinkage, and repair of flat or missing leads."""

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import RuleError
from decoders.dsp import Array
from decoders.dsp.filters import CausalFilter, Decimator, bandpass, decimation

FLAT_SHARE = 1e-6
"""A lead with less than this share of the median variance counts as flat: unplugged or zeroed."""


class RecursiveCovariance:
    """An exponentially forgetting covariance of zero-mean samples: (leads, leads).

    A rank-n update per packet; independent of how the stream is split. Until `memory_samples` have
    been seen it is the plain mean, without start-up bias; then old samples fade. Non-finite samples
    are ignored.
    """

    def __init__(self, n_leads: int, memory_samples: float) -> None:
        if memory_samples < 1:
            raise RuleError(f"memory of {memory_samples} samples: must be at least 1")
        self._memory = memory_samples
        self.weight = 0.0
        """Effective number of samples, at most memory_samples."""
        self.value: Array = np.zeros((n_leads, n_leads))

    def update(self, x: NDArray[np.floating]) -> None:
        """Update with x (n, leads)."""
        rows = np.asarray(x, dtype=np.float64)
        rows = rows[np.isfinite(rows).all(axis=1)]
        if len(rows) == 0:
            return
        weights = np.minimum(self.weight + np.arange(1, len(rows) + 1), self._memory)
        fades = 1 - 1 / weights  # weight that each sample leaves to all before it
        later = np.append(np.cumprod(fades[:0:-1])[::-1], 1.0)
        self.weight = float(weights[-1])
        self.value *= later[0] * fades[0]
        self.value += (rows * (later / weights)[:, None]).T @ rows


def live_leads(cov: Array) -> NDArray[np.bool_]:
    """Which leads carry a signal: finite and not flat."""
    variance = np.diagonal(cov)
    good = np.isfinite(cov).all(axis=1) & (variance > 0)
    if not good.any():
        return good
    return good & (variance > FLAT_SHARE * np.median(variance[good]))


def mend(cov: Array) -> Array:
    """The covariance with flat leads replaced by uncorrelated ones of median variance.

    So it is invertible in those directions, and a flat lead carries no information.
    """
    live = live_leads(cov)
    if live.all():
        return cov
    typical = float(np.median(np.diagonal(cov)[live])) if live.any() else 1.0
    mended = np.where(np.outer(live, live), cov, 0.0)
    mended[~live, ~live] = typical
    return mended


def shrink(cov: Array, amount: float) -> Array:
    """(1 - amount) * cov + amount * (its mean variance) * identity."""
    if not 0 <= amount <= 1:
        raise RuleError(f"shrinkage {amount}: must be between 0 and 1")
    scale = float(np.trace(cov)) / len(cov)
    return (1 - amount) * cov + amount * scale * np.eye(len(cov))


def oas_amount(cov: Array, n_samples: float) -> float:
    """The oracle-approximating shrinkage (Chen 2010) for a covariance of n_samples."""
    p = len(cov)
    total = float(np.trace(cov)) ** 2
    alpha = float(np.mean(cov**2))
    mu2 = total / p**2
    top = alpha + mu2
    below = (n_samples + 1) * (alpha - mu2 / p)
    return 1.0 if below <= 0 else float(min(top / below, 1.0))


def sound(cov: Array, n_samples: float) -> Array:
    """Mended and shrunk by OAS: always positive definite."""
    mended = mend(cov)
    return shrink(mended, oas_amount(mended, max(n_samples, 1.0)))


WORKING_RATE_HZ = 125.0
"""Signals are first decimated to at least this rate: more than twice the highest band."""


class BandMoments:
    """Sums of x x' in each band since `begin`; the filters are reset at each trial.

    The rules may zero the signal between trials, and a step from zero would make them ring.
    """

    def __init__(
        self, rate: float, places: list[int], bands_hz: tuple[tuple[float, float], ...]
    ) -> None:
        self._places = places
        q = decimation(rate, WORKING_RATE_HZ)
        self._decimator = Decimator(q, len(places))
        self.working_rate = rate / q
        widths_hz = np.array([high - low for low, high in bands_hz])
        self.freedom: Array = np.minimum(2 * widths_hz * q / rate, 1.0)
        """(bands,): the share of samples that are independent; low for a narrow band."""
        designs = [bandpass(low, high, rate / q) for low, high in bands_hz]
        self._filters = [CausalFilter(sos, len(places)) for sos in designs]
        self.begin()

    def begin(self) -> None:
        """Start a trial with the next sample: reset filters and sums."""
        self._decimator.reset()
        for band_filter in self._filters:
            band_filter.reset()
        self.forget()

    def forget(self) -> None:
        """Reset the sums; the filters keep their state."""
        n = len(self._places)
        self.sums: Array = np.zeros((len(self._filters), n, n))
        self.count = 0

    def add(self, x: NDArray[np.floating]) -> None:
        """Add the next samples, x (n, all leads)."""
        kept = self._decimator.step(x[:, self._places])
        self.count += len(kept)
        for band, band_filter in enumerate(self._filters):
            y = band_filter.step(kept)
            self.sums[band] += y.T @ y
