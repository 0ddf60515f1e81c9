"""ECoG features: for each row of angles (5 ms) the band powers and the slow potential of each lead.

The features of a row use samples up to its end only, and do not depend on how the stream is split.
Those of one lead are adjacent columns, so that whole leads can be dropped.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from decoders.dsp import Array
from decoders.dsp.filters import FilterBank, bandpass, highpass, lowpass
from tracks.common.angles import ANGLE_RATE

BANDS_HZ = (
    (4.0, 8.0),
    (8.0, 13.0),
    (13.0, 20.0),
    (20.0, 35.0),
    (60.0, 110.0),
    (110.0, 200.0),
)
MEMORIES_S = (0.1, 0.4)
"""Time constants of the exponential averages of the powers."""
LAGS_S = (0.0, 0.12, 0.24)
"""Delays at which the fast powers and the slow potential are used."""
SLOW_HZ = (0.2, 4.0)
"""The local motor potential."""
SMALLEST_UV2 = 1e-4
POWERS = len(BANDS_HZ)
FEATURES_A_LEAD = POWERS * len(LAGS_S) + POWERS + len(LAGS_S)


class EcogFeatures:
    """Returns the features of each row that new samples complete."""

    def __init__(self, rate: float, n_leads: int) -> None:
        self._rate = rate
        self._n_leads = n_leads
        slow = np.concatenate([highpass(SLOW_HZ[0], rate, 1), lowpass(SLOW_HZ[1], rate, 2)])
        bands = [_band(low, high, rate) for low, high in BANDS_HZ]
        self._bank = FilterBank([*bands, slow], n_leads)
        self._memories = [_Memory(memory_s, POWERS * n_leads) for memory_s in MEMORIES_S]
        self._lags = [round(lag * ANGLE_RATE) for lag in LAGS_S]
        self._past: Array | None = None
        self._pending: Array = np.zeros((0, POWERS * n_leads))
        self._samples = 0
        self.rows = 0

    def step(self, x: NDArray[np.floating]) -> Array:
        """x (n, leads) -> (rows completed, leads * FEATURES_A_LEAD)."""
        *bands, slow = self._bank.step(x)
        power = np.concatenate(bands, axis=1) ** 2
        ends = self._row_ends(len(x))
        power = np.concatenate([self._pending, power])
        already = len(self._pending)
        self._samples += len(x)
        if not len(ends):
            self._pending = power
            return np.zeros((0, self._n_leads * FEATURES_A_LEAD))
        bounds = np.concatenate([[0], ends[:-1] + already])
        counts = np.diff(np.append(bounds, ends[-1] + already))
        mean = np.add.reduceat(power[: ends[-1] + already], bounds, axis=0) / counts[:, None]
        self._pending = power[ends[-1] + already :]
        return self._rows(mean, slow[ends - 1])

    def _row_ends(self, n: int) -> NDArray[np.int64]:
        """The ends (1 to n) of the rows that the next n samples complete."""
        total = int((self._samples + n) * ANGLE_RATE / self._rate + 1e-9)
        numbers = np.arange(self.rows + 1, total + 1)
        self.rows = total
        ends = np.ceil(numbers * self._rate / ANGLE_RATE - 1e-9).astype(np.int64)
        return ends - self._samples

    def _rows(self, power: Array, slow: Array) -> Array:
        fast, late = (np.log(memory.step(power) + SMALLEST_UV2) for memory in self._memories)
        base = np.concatenate([fast, slow], axis=1)
        if self._past is None:
            self._past = np.repeat(base[:1], self._lags[-1], axis=0)
        whole = np.concatenate([self._past, base])
        self._past = whole[-self._lags[-1] :].copy()
        ends = [len(whole) - lag for lag in self._lags]
        lagged = [whole[end - len(base) : end] for end in ends]
        return self._by_lead(np.concatenate([*lagged, late], axis=1))

    def _by_lead(self, rows: Array) -> Array:
        by_feature = rows.reshape(len(rows), FEATURES_A_LEAD, self._n_leads)
        return np.ascontiguousarray(np.swapaxes(by_feature, 1, 2)).reshape(len(rows), -1)


class _Memory:
    """An exponential average over rows, starting at the first row."""

    def __init__(self, memory_s: float, n: int) -> None:
        self._keep = float(np.exp(-1 / (memory_s * ANGLE_RATE)))
        self._state: Array | None = None

    def step(self, x: Array) -> Array:
        if self._state is None:
            self._state = self._keep * x[:1]
        y, self._state = signal.lfilter(
            [1 - self._keep], [1, -self._keep], x, axis=0, zi=self._state
        )
        return np.asarray(y)


def _band(low_hz: float, high_hz: float, rate: float) -> Array:
    """The band, cut at 0.45 times the rate."""
    top = 0.45 * rate
    return bandpass(min(low_hz, 0.8 * top), min(high_hz, top), rate, order=2)


def slow_features() -> NDArray[np.bool_]:
    """Which of FEATURES_A_LEAD are the slow potential; they have their own penalty."""
    per_lag = np.array([False] * POWERS + [True])
    return np.concatenate([np.tile(per_lag, len(LAGS_S)), np.zeros(POWERS, dtype=np.bool_)])


def feature_places(leads: Sequence[int]) -> NDArray[np.int64]:
    """The columns of these leads' features."""
    starts = np.asarray(leads, dtype=np.int64)[:, None] * FEATURES_A_LEAD
    return np.asarray((starts + np.arange(FEATURES_A_LEAD)).ravel())
