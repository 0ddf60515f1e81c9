"""Gaussian noise with a given spectrum, and how sources add up at the leads."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from bci_stream.packet import FloatArray

Spectrum = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Amplitude (not power) over frequency in Hz; its scale does not matter."""

ROWS_AT_ONCE = 8  # bounds the memory that the transforms need beside their result
SMALLEST_SHARE = 1e-4  # of the largest bin; smaller ones stay empty, most of a narrow band's


def noise(
    rng: np.random.Generator, count: int, n: int, rate: float, spectrum: Spectrum
) -> FloatArray:
    """(count, n) independent rows of noise, each of standard deviation 1."""
    # Longer than n, so that the end does not continue into the beginning.
    size = fft.next_fast_len(n + round(rate), real=True)
    frequencies_hz = np.arange(1, size // 2, dtype=np.float64) * (rate / size)
    amplitudes = spectrum(frequencies_hz)
    first, last = _span(amplitudes)
    wanted = amplitudes[first:last]
    scale = size / 2 / np.sqrt(np.sum(wanted**2))
    out = np.empty((count, n), np.float32)
    for row in range(0, count, ROWS_AT_ONCE):
        rows = min(ROWS_AT_ONCE, count - row)
        bins = np.zeros((rows, size // 2 + 1), np.complex64)
        draws = rng.standard_normal((rows, last - first, 2), np.float32).view(np.complex64)[..., 0]
        bins[:, first + 1 : last + 1] = draws * (wanted * scale).astype(np.float32)
        out[row : row + rows] = fft.irfft(bins, size, axis=1, overwrite_x=True)[:, :n]
    return out


def power_law(exponent: float, corner_hz: float = 0.5) -> Spectrum:
    """Power falls as f ** -exponent; flat below the corner."""
    return lambda f: np.maximum(f, corner_hz) ** (-exponent / 2)


def band(centre_hz: float, width_hz: float) -> Spectrum:
    """A peak: a rhythm whose amplitude varies over time, the faster the wider the band."""
    return lambda f: 1 / (1 + ((f - centre_hz) / width_hz) ** 2)


def between(low_hz: float, high_hz: float) -> Spectrum:
    """A band with soft edges."""
    edge = 0.1 * low_hz
    return lambda f: 1 / (1 + np.exp(-(f - low_hz) / edge)) / (1 + np.exp((f - high_hz) / edge))


def _span(amplitudes: NDArray[np.float64]) -> tuple[int, int]:
    kept = np.flatnonzero(amplitudes > SMALLEST_SHARE * amplitudes.max())
    return int(kept[0]), int(kept[-1]) + 1


class Activity(NamedTuple):
    """A source: its amplitude at each lead (leads,), and its signal over time (n,)."""

    row: NDArray[np.float64]
    signal: FloatArray


def mix(activities: Sequence[Activity]) -> FloatArray:
    """(n, leads): all sources as the leads see them, C-contiguous."""
    rows = np.stack([activity.row for activity in activities]).astype(np.float32)
    signals = np.stack([activity.signal for activity in activities])
    out: FloatArray = signals.T @ rows
    return out


def activities_of(rows: NDArray[np.float64], signals: FloatArray) -> list[Activity]:
    """One activity for each row of (sources, leads) and (sources, n)."""
    return [Activity(row, signal) for row, signal in zip(rows, signals, strict=True)]
