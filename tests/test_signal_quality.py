"""Signal quality, spectra, filters and thinning for a screen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import welch

from bci_stream.signal_quality import FILTERS, extremes, filtered, lead_quality, spectrum

RATE = 250.0
TIME = np.arange(int(4 * RATE)) / RATE


def noise(seed: int = 0, uv: float = 10.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, uv, len(TIME))


def sine(hz: float, uv: float) -> np.ndarray:
    return uv * np.sin(2 * np.pi * hz * TIME)


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        (noise(), "good"),
        (noise() + 5000.0, "good"),  # an offset is no fault
        (np.full(len(TIME), 3.0), "flat"),
        (noise() + sine(50, 40), "line noise"),
        (noise() + sine(100, 40), "line noise"),
        (np.clip(sine(2, 1000.0) + noise(), -400, 400), "saturated"),
        (np.where(np.arange(len(TIME)) == 7, np.nan, noise()), "invalid"),
        (np.zeros(1), "flat"),
    ],
)
def test_verdicts(samples: np.ndarray, verdict: str) -> None:
    assert lead_quality(samples, RATE, 50.0).verdict == verdict


def test_line_noise_is_that_of_the_countrys_mains() -> None:
    samples = noise() + sine(60, 40)
    assert lead_quality(samples, RATE, 50.0).verdict == "good"
    assert lead_quality(samples, RATE, 60.0).verdict == "line noise"


def test_one_lead_is_expected() -> None:
    with pytest.raises(ValueError, match="one lead"):
        lead_quality(np.zeros((10, 2)), RATE, 50.0)


def test_the_spectrum_has_its_peak_where_the_sine_is() -> None:
    frequencies, density = spectrum(np.stack([sine(10, 5), sine(31, 5)], axis=1), RATE)
    assert frequencies[density.argmax(axis=0)].tolist() == [10.0, 31.0]


@pytest.mark.parametrize(
    ("n", "rate"), [(1000, 250.0), (999, 250.0), (777, 125.5), (400, 33.0), (3, 250.0)]
)
def test_the_spectrum_is_welchs(n: int, rate: float) -> None:
    samples = np.random.default_rng(1).normal(3000, 10, (n, 2))
    expected = welch(samples, rate, nperseg=min(n, round(2 * rate)), axis=0)
    for found, known in zip(spectrum(samples, rate), expected, strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(spectrum(samples[:, 1], rate)[1], expected[1][:, 1], atol=1e-9)


@pytest.mark.parametrize("band", list(FILTERS))
@pytest.mark.parametrize("n", [1, 40, 1000])
def test_every_filter_takes_any_length(band: str, n: int) -> None:
    samples = np.stack([noise()[:n], sine(10, 5)[:n]], axis=1)
    assert filtered(samples, RATE, band, 50.0).shape == samples.shape
    assert np.isfinite(filtered(samples, RATE, band)).all()


def test_a_filter_keeps_its_band_and_removes_the_rest() -> None:
    samples = np.stack([sine(15, 5), sine(60, 5), sine(50, 5)], axis=1)
    kept = filtered(samples, RATE, "8-30", 50.0)[100:-100].std(axis=0)
    assert kept[0] == pytest.approx(5 / np.sqrt(2), rel=0.1)
    assert (kept[1:] < 0.5).all()


@given(st.integers(1, 400), st.integers(1, 100), st.integers(0, 10))
def test_thinning_keeps_every_extreme(n: int, columns: int, seed: int) -> None:
    samples = np.random.default_rng(seed).normal(size=(n, 2))
    thinned = extremes(samples, columns)
    assert len(thinned) <= columns
    assert (thinned[:, :, 0].min(axis=0) == samples.min(axis=0)).all()
    assert (thinned[:, :, 1].max(axis=0) == samples.max(axis=0)).all()
