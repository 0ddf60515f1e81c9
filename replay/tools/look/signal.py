"""What the viewer computes of a signal: filters, columns to draw, spectrum, and faults of leads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from bci_stream.packet import FloatArray, Lead
from bci_stream.signal_quality import lead_qualities

LeadValues = NDArray[np.float64]

BRIDGE_SHARE = 1e-3
"""Two leads are bridged if the power of their difference is below this share of the smaller one's."""
LARGEST_HZ = 100.0


@dataclass(frozen=True)
class FilterSettings:
    """Corner frequencies in Hz; 0: this filter is off. notch: the power line's frequency."""

    highpass: float = 1.0
    lowpass: float = 40.0
    notch: float = 50.0

    def sections(self, rate: float) -> NDArray[np.float64]:
        """Second-order sections; a filter above half the rate is left out."""
        parts = []
        half = rate / 2
        if 0 < self.highpass < half:
            parts.append(signal.butter(2, self.highpass, "highpass", fs=rate, output="sos"))
        if 0 < self.lowpass < half:
            parts.append(signal.butter(4, self.lowpass, fs=rate, output="sos"))
        if 0 < self.notch < half:
            parts.append(signal.tf2sos(*signal.iirnotch(self.notch, 20, fs=rate)))
        return np.concatenate(parts) if parts else np.empty((0, 6))


class DisplayFilter:
    """Filters samples as they come; values that are not finite count as 0."""

    def __init__(self, settings: FilterSettings, rate: float) -> None:
        self.settings = settings
        self._sections = settings.sections(rate).astype(np.float32)
        self._state: FloatArray | None = None

    def step(self, samples: FloatArray) -> FloatArray:
        samples = finite(samples)
        if not len(self._sections) or not len(samples):
            return samples
        if self._state is None:  # as if the first sample had been there before
            rest = signal.sosfilt_zi(self._sections)[:, :, None]
            self._state = (rest * samples[0]).astype(np.float32)
        filtered, self._state = signal.sosfilt(self._sections, samples, axis=0, zi=self._state)
        return filtered.astype(np.float32, copy=False)


class ColumnMaker:
    """Smallest and largest value of each lead in columns of equal length, as the page draws them."""

    def __init__(self, samples_a_column: int, leads: int) -> None:
        self._size = samples_a_column
        self._rest: FloatArray = np.empty((0, leads), dtype=np.float32)

    def step(self, samples: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(columns, leads) each; the result does not depend on how samples are divided into calls."""
        samples = np.concatenate([self._rest, samples])
        n = len(samples) // self._size
        cut = samples[: n * self._size].reshape(n, self._size, samples.shape[1])
        self._rest = samples[n * self._size :]
        return cut.min(axis=1), cut.max(axis=1)


@dataclass(frozen=True)
class LeadFault:
    """Faults of one lead. line_uv: amplitude at the power line's frequency. bridged: to these leads.

    invalid: it has values that are no numbers. `bci_stream.signal_quality` has the rules of the first four.
    """

    name: str
    invalid: bool
    flat: bool
    saturated: bool
    line: bool
    line_uv: float
    rms_uv: float
    bridged: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return dict(vars(self))


def find_faults(
    block: FloatArray,
    rate: float,
    line_hz: float,
    leads: Sequence[str],
    computed: tuple[LeadValues, LeadValues] | None = None,
) -> list[LeadFault]:
    """Judge the last seconds of a signal in microvolts, (samples, leads), unfiltered.

    computed: its `bci_stream.signal_quality.spectrum`, where that is known already.
    """
    qualities = lead_qualities(block, rate, line_hz, computed)
    centred = _without_trend(finite(block))
    line_uv = line_amplitude(centred, rate, line_hz)
    silent = np.array([quality.verdict in ("flat", "invalid") for quality in qualities])
    bridges = _bridges(centred, silent)
    return [
        LeadFault(
            name,
            invalid=quality.verdict == "invalid",
            flat=quality.verdict == "flat",
            saturated=quality.verdict == "saturated",
            line=quality.verdict == "line noise",
            line_uv=float(line_uv[i]),
            rms_uv=quality.spread_uv,
            bridged=tuple(leads[k] for k in np.flatnonzero(bridges[i]).tolist()),
        )
        for i, (name, quality) in enumerate(zip(leads, qualities, strict=True))
    ]


def finite(block: FloatArray) -> FloatArray:
    """The block with 0 in the place of values that are no numbers."""
    return np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)


def _without_trend(values: FloatArray) -> FloatArray:
    """Without mean and slope of each lead: a drift that all leads share is no bridge."""
    centred: FloatArray = values - values.mean(axis=0, dtype=np.float64).astype(np.float32)
    times = (np.arange(len(values)) - (len(values) - 1) / 2).astype(np.float32)
    centred -= np.outer(times, times @ centred / max(float(times @ times), 1.0))
    return centred


def line_amplitude(centred: FloatArray, rate: float, line_hz: float) -> LeadValues:
    """Amplitude of each lead at this frequency."""
    if not 0 < line_hz < rate / 2 or not len(centred):
        return np.zeros(centred.shape[1])
    angle = 2 * np.pi * line_hz * np.arange(len(centred)) / rate
    window = signal.windows.hann(len(centred))
    waves = np.stack([np.cos(angle) * window, np.sin(angle) * window]).astype(np.float32)
    cosine, sine = (waves @ centred).astype(np.float64)
    amplitude: LeadValues = 2 * np.hypot(cosine, sine) / float(window.sum())
    return amplitude


def _bridges(centred: FloatArray, flat: NDArray[np.bool_]) -> NDArray[np.bool_]:
    covariance = centred.T @ centred / max(1, len(centred))
    power = np.diag(covariance)
    difference = power[:, None] + power[None, :] - 2 * covariance
    smaller = np.minimum(power[:, None], power[None, :])
    bridged: NDArray[np.bool_] = difference < BRIDGE_SHARE * smaller
    bridged &= ~flat[:, None] & ~flat[None, :]
    np.fill_diagonal(bridged, False)
    return bridged


def in_decibels(frequencies: LeadValues, density: LeadValues) -> tuple[LeadValues, LeadValues]:
    """A `spectrum` up to LARGEST_HZ, in dB of a microvolt squared a Hz."""
    kept = frequencies <= LARGEST_HZ
    return frequencies[kept], 10 * np.log10(np.maximum(density[kept], 1e-6))


def flat_positions(leads: Sequence[Lead]) -> list[tuple[float, float] | None]:
    """Each lead on a disk seen from above, nose up, the ears at 1; by its position, or by its 10-20 name."""
    known: dict[str, tuple[float, float, float]] = {}
    if any(lead.position is None for lead in leads):
        import mne

        new, old = "colin27_1005", "standard_1005"  # MNE 1.13 has renamed it
        montage = new if new in mne.channels.get_builtin_montages() else old
        places = mne.channels.make_standard_montage(montage).get_positions()["ch_pos"]
        known = {name.upper(): tuple(place) for name, place in places.items()}
    return [_project(lead.position or known.get(lead.name.strip(".").upper())) for lead in leads]


def _project(place: tuple[float, float, float] | None) -> tuple[float, float] | None:
    if place is None or not np.linalg.norm(place):
        return None
    x, y, z = np.array(place) / np.linalg.norm(place)
    angle, distance = np.arctan2(y, x), np.arccos(np.clip(z, -1, 1)) / (np.pi / 2)
    return float(distance * np.cos(angle)), float(distance * np.sin(angle))
