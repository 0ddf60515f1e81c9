"""SSVEP evidence: the likelihood ratio of a response at each frequency against no response.

The Fourier coefficients z (leads) at a stimulus frequency and its harmonics are a sufficient
statistic. With noise of covariance N, a response has an amplitude with mean M (phase-locked) and
covariance S, specific to the person: z / sqrt(seconds) ~ CN(M, S + N / seconds). Frequencies too
close to be distinguished by power differ by the phase that M predicts. `ResponseModel` learns M and
S without labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array, ComplexArray
from decoders.dsp.buffers import Ring
from decoders.dsp.covariance import mend, shrink
from decoders.turing.response_model import ResponseModel, Sample

WINDOW_S = 2.0
HOP_S = 1.0
SIDES_HZ = np.array([-2.0, -1.0, 1.0, 2.0])
"""Zeros of a 2 s window: a response at the frequency itself does not leak there."""
MEMORY_WINDOWS = 60.0
READY_WINDOWS = 4
SHRINKAGE = 0.05


class NarrowbandNoise:
    """A robust running covariance of the Fourier coefficients beside each frequency.

    Windows of 2 s, one per second, over the whole session. Windows with artefacts (Tyler's weight)
    and old ones have less weight.
    """

    def __init__(self, frequencies_hz: NDArray[np.float64], rate: float, n_leads: int) -> None:
        window = round(WINDOW_S * rate)
        beside = frequencies_hz.ravel()[:, None] + SIDES_HZ
        waves = np.exp(-2j * np.pi * beside[..., None] * np.arange(window) / rate)
        self._waves: ComplexArray = (waves / np.sqrt(window)).reshape(-1, window)
        self._shape = (*frequencies_hz.shape, n_leads, n_leads)
        self._ring = Ring(window, n_leads)
        self._hop = round(HOP_S * rate)
        self._next = window
        self._weight: Array = np.zeros(frequencies_hz.size)
        self._sum: Array = np.zeros((frequencies_hz.size, n_leads, n_leads))
        self.windows = 0

    @property
    def ready(self) -> bool:
        return self.windows >= READY_WINDOWS

    def push(self, x: Array) -> None:
        """Add samples x (n, leads), any n."""
        while len(x):
            n = min(len(x), self._next - self._ring.count)
            self._ring.push(x[:n])
            x = x[n:]
            if self._ring.count == self._next:
                self._next += self._hop
                self._take_window()

    def covariance(self) -> Array:
        """(*frequencies, leads, leads): of coefficients scaled by 1 / sqrt(samples); invertible."""
        mean = self._sum / np.maximum(self._weight, 1e-12)[:, None, None]
        sound = [shrink(mend(cov), SHRINKAGE) for cov in mean]
        return np.array(sound).reshape(self._shape)

    def _take_window(self) -> None:
        n_leads = self._shape[-1]
        z = (self._waves @ self._ring.last(len(self._ring))).reshape(-1, len(SIDES_HZ), n_leads)
        weights = self._tyler_weights(z)
        power = (np.swapaxes(z, 1, 2) @ z.conj()).real / len(SIDES_HZ)
        keep = np.exp(-1 / MEMORY_WINDOWS)
        self._sum = keep * self._sum + weights[:, None, None] * power
        self._weight = keep * self._weight + weights
        self.windows += 1

    def _tyler_weights(self, z: ComplexArray) -> Array:
        if not self.ready:
            return np.ones(len(z))
        inverse = np.linalg.inv(self.covariance().reshape(len(z), *self._shape[-2:]))
        size = np.einsum("ksc,kcd,ksd->k", z.conj(), inverse, z).real / (z.shape[1] * z.shape[2])
        return np.asarray(1 / np.maximum(size, 1.0), dtype=np.float64)


class Demodulator:
    """Running sums of x(t) exp(-2 pi i f t), remembered at some times ("marks").

    The sum from a mark to the present is one subtraction. Independent of how the stream is split.
    """

    def __init__(
        self,
        frequencies_hz: NDArray[np.float64],
        rate: float,
        n_leads: int,
        marks: Sequence[int] = (0,),
    ) -> None:
        self._omega = -2j * np.pi * frequencies_hz.ravel() / rate
        self._shape = (*frequencies_hz.shape, n_leads)
        self._marks = tuple(marks)
        self.restart()

    def restart(self) -> None:
        """Reset: the next sample is at time 0."""
        self.count = 0
        self.total: ComplexArray = np.zeros(
            (len(self._omega), self._shape[-1]), dtype=np.complex128
        )
        self._at_mark: dict[int, ComplexArray] = {}

    def push(self, x: Array) -> None:
        """Add samples x (n, leads), any n."""
        while len(x):
            self._remember()
            ahead = [mark - self.count for mark in self._marks if mark > self.count]
            n = min([len(x), *ahead])
            self._add(x[:n])
            x = x[n:]
        self._remember()

    def since(self, mark: int) -> ComplexArray:
        """The sums from sample `mark` on: (*frequencies, leads); zeros if it is not reached."""
        before = self._at_mark.get(mark)
        sums = np.zeros_like(self.total) if before is None else self.total - before
        return sums.reshape(self._shape)

    def _remember(self) -> None:
        if self.count in self._marks and self.count not in self._at_mark:
            self._at_mark[self.count] = self.total.copy()

    def _add(self, x: Array) -> None:
        times = np.arange(self.count, self.count + len(x))
        self.total += np.exp(self._omega[:, None] * times) @ x
        self.count += len(x)


HARMONICS = 3
ONSETS_S = (0.1, 0.5, 1.0, 1.5)
"""Possible onsets of a response; the person's own is learned."""
BESIDE_HZ = np.array([-3.0, -2.5, -2.0, -1.5, -1.0, 1.0, 1.5, 2.0, 2.5, 3.0])
BACKGROUND_WEIGHT = 10.0
"""Weight of the session's noise level, in coefficients beside the stimulus."""
MIN_WINDOW_S = 0.2


@dataclass(frozen=True)
class SsvepEvidence:
    """The evidence of a trial so far. log_odds (frequencies,): against no response."""

    log_odds: Array
    sample: Sample | None


class SsvepDetector:
    """Push the filtered samples of a session; call begin() and end() at the bounds of trials."""

    def __init__(self, frequencies_hz: Sequence[float], rate: float, n_leads: int) -> None:
        self._rate = rate
        base = np.array(frequencies_hz, dtype=np.float64)[:, None] * np.arange(1, HARMONICS + 1)
        self._onsets = [round(onset * rate) for onset in ONSETS_S]
        nearby = base[..., None] + np.concatenate([[0.0], BESIDE_HZ])
        self._sums = Demodulator(nearby, rate, n_leads, self._onsets)
        self._noise = NarrowbandNoise(base, rate, n_leads)
        self._noise_now: Array | None = None
        self._running = False
        self.response = ResponseModel(frequencies_hz, HARMONICS, len(ONSETS_S), n_leads)

    def push(self, x: Array) -> None:
        """Add filtered samples (n, leads)."""
        self._noise.push(x)
        if self._running:
            self._sums.push(x)

    def begin(self) -> None:
        """The next sample is the first of a stimulus: phase 0."""
        self._sums.restart()
        self._running = True
        self._noise_now = self._noise.covariance() if self._noise.ready else None
        if self._noise_now is not None:
            self.response.set_noise(self._noise_now)

    def evidence(self) -> SsvepEvidence:
        """Log odds of a response at each frequency; zeros while the noise is unknown."""
        sample = self._sample()
        if sample is None:
            return SsvepEvidence(np.zeros(self.response.n_frequencies), None)
        return SsvepEvidence(self.response.log_odds(sample), sample)

    def end(self) -> None:
        """The next sample belongs to no trial."""
        self._running = False

    def learn(self, evidence: SsvepEvidence, prior: Array) -> None:
        """Learn from a trial. prior (frequencies + 1,): from other evidence, no response last."""
        if evidence.sample is not None:
            self.response.learn(evidence.sample, prior)

    def _sample(self) -> Sample | None:
        if self._noise_now is None:
            return None
        lengths = np.array([self._sums.count - onset for onset in self._onsets])
        usable = lengths >= MIN_WINDOW_S * self._rate
        if not usable.any():
            return None
        sums = np.array([self._sums.since(onset) for onset in self._onsets])
        z = sums / np.sqrt(np.maximum(lengths, 1))[:, None, None, None, None]
        levels = _noise_level(z[..., 1:, :], self.response.inverse_noise)
        return Sample(
            z=z[..., 0, :].copy(),  # a view would keep the whole array
            noise_level=np.array([self.response.pooled(level) for level in levels]),
            seconds=np.where(usable, lengths / self._rate, 0.0),
        )


def _noise_level(beside: ComplexArray, inverse_noise: Array) -> NDArray[np.float64]:
    """The trial's noise relative to the session's: (onsets, frequencies, harmonics)."""
    n_leads = beside.shape[-1]
    white = beside @ inverse_noise
    size = np.einsum("dfhsc,dfhsc->dfh", beside.conj(), white).real / n_leads
    level: Array = (BACKGROUND_WEIGHT + size) / (BACKGROUND_WEIGHT + beside.shape[-2])
    return level
