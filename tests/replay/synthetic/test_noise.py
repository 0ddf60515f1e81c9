"""Noise has the spectrum and the size that were asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, stats

from replay.synthetic.noise import Spectrum, band, between, noise, power_law


@settings(max_examples=30)
@given(st.integers(1, 20), st.integers(1, 5000), st.sampled_from([200.0, 250.0, 1000.0]))
def test_noise_has_the_shape_asked_for_and_is_finite(count: int, n: int, rate: float) -> None:
    rows = noise(np.random.default_rng(1), count, n, rate, power_law(1.3))
    assert rows.shape == (count, n)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()


@pytest.mark.parametrize(
    "spectrum", [np.ones_like, power_law(1.0, 2.0), band(10, 1), between(14, 28)]
)
def test_noise_has_standard_deviation_1(spectrum: Spectrum) -> None:
    rows = noise(np.random.default_rng(1), 16, 20_000, 250, spectrum)
    assert abs(float(np.sqrt(np.mean(rows**2))) - 1) < 0.05


def test_rows_are_independent() -> None:
    rows = noise(np.random.default_rng(1), 12, 20_000, 250, np.ones_like)
    assert np.abs(np.corrcoef(rows) - np.eye(12)).max() < 0.05


@given(st.floats(0.5, 2.0))
@settings(max_examples=10)
def test_a_power_law_has_its_exponent(exponent: float) -> None:
    row = noise(np.random.default_rng(3), 1, 60_000, 250, power_law(exponent))[0]
    f, power = signal.welch(row, 250, nperseg=1000)
    inside = (f > 2) & (f < 100)
    slope = stats.linregress(np.log(f[inside]), np.log(power[inside])).slope
    assert abs(slope + exponent) < 0.15


@pytest.mark.parametrize("centre_hz", [6.0, 10.5, 22.0])
def test_a_band_peaks_at_its_centre(centre_hz: float) -> None:
    row = noise(np.random.default_rng(3), 1, 60_000, 250, band(centre_hz, 1.0))[0]
    f, power = signal.welch(row, 250, nperseg=500)
    assert abs(f[np.argmax(power)] - centre_hz) <= 1.0
    assert power.max() > 50 * power[np.argmin(np.abs(f - centre_hz - 10))]


def test_the_end_does_not_run_into_the_beginning() -> None:
    """A transform's noise is periodic; what is cut from a longer one is not."""
    rows = noise(np.random.default_rng(5), 200, 1000, 250, power_law(3, 0.01))
    step = np.abs(np.diff(rows, axis=1)).mean()
    assert np.abs(rows[:, 0] - rows[:, -1]).mean() > 3 * step
