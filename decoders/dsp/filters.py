"""Causal filters with state: the output does not depend on how the stream is split."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from bci_stream.errors import RuleError
from decoders.dsp import Array

MAX_UV = 1e7
"""10 V: larger values are transmission errors, not signals."""


class CausalFilter:
    """Second-order sections over the leads of a stream.

    Starts in the steady state of the first sample, so that an offset causes no transient. A
    non-finite sample is replaced by the lead's last finite one.
    """

    def __init__(self, sos: Array, n_leads: int) -> None:
        self._sos = np.ascontiguousarray(sos, dtype=np.float64)
        self._n_leads = n_leads
        self.reset()

    def reset(self) -> None:
        """Reset the state."""
        self._state: Array | None = None
        self._held = Hold(self._n_leads)

    def step(self, x: NDArray[np.floating]) -> Array:
        """x (n, leads), any n -> y (n, leads), a new array."""
        finite = self._held.step(x)
        if len(finite) == 0:
            return finite
        if self._state is None:
            self._state = signal.sosfilt_zi(self._sos)[:, :, None] * finite[0]
        y, self._state = signal.sosfilt(self._sos, finite, axis=0, zi=self._state)
        return np.asarray(y, dtype=np.float64)


class Hold:
    """Replaces values that are not finite or beyond MAX_UV by the lead's last valid one (initially 0)."""

    def __init__(self, n_leads: int) -> None:
        self._last = np.zeros(n_leads)

    def step(self, x: NDArray[np.floating]) -> Array:
        """x (n, leads) -> a finite float64 copy."""
        y = np.array(x, dtype=np.float64)
        if len(y) == 0:
            return y
        good = np.abs(y) <= MAX_UV  # False for NaN too
        if not good.all():
            for i in range(len(y)):
                y[i] = np.where(good[i], y[i], y[i - 1] if i else self._last)
        self._last = y[-1].copy()
        return y


class Decimator:
    """Low-pass, then every q-th sample, independent of how the stream is split."""

    def __init__(self, q: int, n_leads: int) -> None:
        if q < 1:
            raise RuleError(f"decimation factor {q}: must be at least 1")
        self.q = q
        sos = (
            signal.cheby2(6, 40, 1 / q, output="sos") if q > 1 else np.array([[1.0, 0, 0, 1, 0, 0]])
        )
        self._filter = CausalFilter(sos, n_leads)
        self._skip = 0

    def reset(self) -> None:
        """Reset the state; the next sample is kept."""
        self._filter.reset()
        self._skip = 0

    def step(self, x: NDArray[np.floating]) -> Array:
        """x (n, leads) -> the kept samples (about n / q, leads)."""
        y = self._filter.step(x)
        kept = y[self._skip :: self.q]
        self._skip = (self._skip - len(y)) % self.q
        return kept


def decimation(rate: float, at_least_hz: float) -> int:
    """The largest whole factor that leaves a rate of at least at_least_hz."""
    return max(1, int(rate / at_least_hz + 1e-9))


def bandpass(low_hz: float, high_hz: float, rate: float, order: int = 4) -> Array:
    """Butterworth sections; a band that reaches the Nyquist frequency becomes a high-pass."""
    if not 0 < low_hz < high_hz or low_hz >= rate / 2:
        raise RuleError(
            f"band {low_hz}-{high_hz} Hz at {rate} Hz: must be increasing and start below {rate / 2} Hz"
        )
    if high_hz >= 0.99 * rate / 2:
        return highpass(low_hz, rate, order)
    sos: Array = signal.butter(order, (low_hz, high_hz), "bandpass", fs=rate, output="sos")
    return sos


def highpass(low_hz: float, rate: float, order: int = 4) -> Array:
    """Butterworth sections."""
    sos: Array = signal.butter(order, low_hz, "highpass", fs=rate, output="sos")
    return sos


def lowpass(high_hz: float, rate: float, order: int = 4) -> Array:
    """Butterworth sections."""
    sos: Array = signal.butter(order, high_hz, "lowpass", fs=rate, output="sos")
    return sos


def notch(line_hz: float, rate: float, quality: float = 30.0) -> Array:
    """Notch sections at the mains frequency and its harmonics below the Nyquist frequency."""
    lines = [line_hz * k for k in range(1, 6) if line_hz * k < 0.98 * rate / 2]
    if not lines:
        return np.array([[1.0, 0, 0, 1, 0, 0]])
    sections = [signal.tf2sos(*signal.iirnotch(line, quality, fs=rate)) for line in lines]
    return np.concatenate(sections)


class FilterBank:
    """Several filters over the same leads, in parallel; non-finite samples are held."""

    def __init__(self, filters: Sequence[Array], n_leads: int) -> None:
        """filters: second-order sections; each starts in the steady state of the first sample."""
        self._hold = Hold(n_leads)
        self._filters = [signal.sos2tf(sos) for sos in filters]
        self._states: list[Array] | None = None

    def step(self, x: NDArray[np.floating]) -> Array:
        """x (n, leads) -> (filters, n, leads)."""
        finite = self._hold.step(x)
        if len(finite) == 0:
            return np.zeros((len(self._filters), *finite.shape))
        if self._states is None:
            self._states = [signal.lfilter_zi(b, a)[:, None] * finite[0] for b, a in self._filters]
        out = np.empty((len(self._filters), *finite.shape))
        for number, (b, a) in enumerate(self._filters):
            out[number], self._states[number] = signal.lfilter(
                b, a, finite, axis=0, zi=self._states[number]
            )
        return out
