"""The quality of a lead's signal, its spectrum, and filtering and thinning for a screen: pure functions.

Samples are in microvolts, rates and frequencies in Hz.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray

Floats64 = NDArray[np.float64]

FLAT_UV: Final = 0.1
"""A lead whose standard deviation is below this is flat: no electrode, or a constant."""

SATURATED_SHARE: Final = 0.02
LEAST_SATURATED: Final = 5
"""A lead is saturated if so many of its samples, at least so many in a row, stand at one extreme value."""

LINE_SHARE: Final = 0.5
LINE_WIDTH_HZ: Final = 1.0
LEAST_HZ: Final = 1.0
"""Line noise: this share of the power above LEAST_HZ lies within LINE_WIDTH_HZ of the mains frequency, or of
twice that."""

FILTERS: Final[dict[str, tuple[float | None, float | None]]] = {
    "none": (None, None),
    "0.5-40": (0.5, 40.0),
    "1-40": (1.0, 40.0),
    "8-30": (8.0, 30.0),
    "70-150": (70.0, 150.0),
}
"""Pass bands for a screen, by name: (lowest, highest)."""


@dataclass(frozen=True, slots=True)
class LeadQuality:
    """Quality of one lead over a stretch of signal.

    spread_uv: standard deviation. line_share: share of the power that is line noise. saturated_share: share
    of samples at the largest or the smallest value. finite: all samples are numbers.
    """

    spread_uv: float
    line_share: float
    saturated_share: float
    finite: bool = True

    @property
    def verdict(self) -> str:
        """`invalid`, `flat`, `saturated`, `line noise` or `good`."""
        if not self.finite:
            return "invalid"
        if self.spread_uv < FLAT_UV:
            return "flat"
        if self.saturated_share > SATURATED_SHARE:
            return "saturated"
        return "line noise" if self.line_share > LINE_SHARE else "good"


def lead_quality(block: FloatArray | Floats64, rate: float, line_hz: float = 50.0) -> LeadQuality:
    """The quality of one lead; block: its samples (n,), best some seconds of them."""
    samples = np.asarray(block, dtype=np.float64)
    if samples.ndim != 1:
        raise ValueError(f"one lead, an array of shape (n,), is expected; got {samples.shape}")
    return lead_qualities(samples[:, None], rate, line_hz)[0]


def lead_qualities(
    block: FloatArray | Floats64,
    rate: float,
    line_hz: float = 50.0,
    computed: tuple[Floats64, Floats64] | None = None,
) -> list[LeadQuality]:
    """The quality of each lead; block: (n, leads). computed: its `spectrum`, where that is known already."""
    samples = np.asarray(block, dtype=np.float64).T.copy()  # each lead's samples side by side
    finite = np.all(np.isfinite(samples), axis=1)
    if samples.shape[1] < 2:
        return [LeadQuality(0.0, 0.0, 0.0, finite=bool(good)) for good in finite]
    samples[~finite] = 0.0
    spread = samples.std(axis=1)
    line = _line_share(*(computed or spectrum(samples.T, rate)), line_hz)
    found = []
    for i, good in enumerate(finite):
        if not good or spread[i] < FLAT_UV:
            found.append(LeadQuality(float(spread[i]), 0.0, 0.0, finite=bool(good)))
        else:
            saturated = _saturated_share(samples[i])
            found.append(LeadQuality(float(spread[i]), float(line[i]), saturated))
    return found


def _line_share(frequencies: Floats64, density: Floats64, line_hz: float) -> Floats64:
    """Of each lead; density: (m, leads)."""
    counted = frequencies >= LEAST_HZ
    total = density[counted].sum(axis=0)
    distance = np.minimum(np.abs(frequencies - line_hz), np.abs(frequencies - 2 * line_hz))
    line = density[counted & (distance <= LINE_WIDTH_HZ)].sum(axis=0)
    return np.asarray(np.divide(line, total, out=np.zeros_like(total), where=total > 0))


def _saturated_share(samples: Floats64) -> float:
    """The share of samples at an extreme value, if LEAST_SATURATED of them follow each other."""
    share = 0.0
    for extreme in (samples.min(), samples.max()):
        at_extreme = samples == extreme
        if np.count_nonzero(at_extreme) < LEAST_SATURATED:
            continue
        edges = np.flatnonzero(np.diff(np.concatenate([[False], at_extreme, [False]]).astype(int)))
        longest = int((edges[1::2] - edges[::2]).max(initial=0))
        if longest >= LEAST_SATURATED:
            share += float(at_extreme.mean())
    return share


def spectrum(block: FloatArray | Floats64, rate: float) -> tuple[Floats64, Floats64]:
    """Frequencies (m,) and power densities (m,) or (m, leads) in uV^2/Hz, by Welch's method, of 2 s windows.

    block: samples (n,) of one lead, or (n, leads).
    """
    from scipy.fft import rfft

    # scipy.signal.welch gives the same and takes five times as long.
    samples = np.asarray(block, dtype=np.float64).T.copy()  # each lead's samples side by side
    size = max(2, min(samples.shape[-1], round(2 * rate)))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    begins = range(0, samples.shape[-1] - size + 1, size - size // 2)
    density = np.zeros((*samples.shape[:-1], size // 2 + 1))
    for begin in begins:
        part = samples[..., begin : begin + size]
        found = rfft((part - part.mean(axis=-1, keepdims=True)) * window)
        density += found.real**2 + found.imag**2
    density[..., 1 : (size + 1) // 2] *= 2  # both sides; 0 and half the rate have one only
    density /= max(1, len(begins)) * rate * float(window @ window)
    return np.arange(size // 2 + 1) * rate / size, density.T


def filtered(
    block: FloatArray | Floats64, rate: float, band: str, line_hz: float = 0.0
) -> Floats64:
    """Samples (n, leads) in a pass band of FILTERS, without delay; line_hz: a notch there, 0 for none.

    It looks ahead, so it is for a screen only. An edge at or above half the rate is left out.
    """
    from scipy.signal import butter, filtfilt, iirnotch, sosfiltfilt

    samples: Any = np.nan_to_num(np.asarray(block, dtype=np.float64), posinf=0.0, neginf=0.0)
    low, high = FILTERS[band]
    high = None if high is None or high >= rate / 2 else high
    low = None if low is None or low >= rate / 2 else low
    samples = samples - np.median(samples, axis=0)
    if len(samples) < 32:
        return np.asarray(samples)
    if low is not None and high is not None:
        sos = butter(2, (low, high), "bandpass", fs=rate, output="sos")
        samples = sosfiltfilt(sos, samples, axis=0, padlen=min(len(samples) - 1, round(rate)))
    elif low is not None:
        sos = butter(2, low, "highpass", fs=rate, output="sos")
        samples = sosfiltfilt(sos, samples, axis=0, padlen=min(len(samples) - 1, round(rate)))
    if 0 < line_hz < rate / 2:
        b, a = iirnotch(line_hz, 30.0, fs=rate)
        samples = filtfilt(b, a, samples, axis=0)
    return np.asarray(samples)


def extremes(samples: Floats64, columns: int) -> Floats64:
    """Samples (n, leads) thinned to at most `columns` columns: (columns, leads, 2), least and largest value.

    A spike of one sample is still seen, as it is not in an average.
    """
    n = len(samples)
    if n == 0:
        return np.empty((0, samples.shape[1], 2))
    edges = np.unique(np.linspace(0, n, min(columns, n) + 1).astype(int)[:-1])
    least = np.minimum.reduceat(samples, edges, axis=0)
    largest = np.maximum.reduceat(samples, edges, axis=0)
    return np.stack([least, largest], axis=2)
