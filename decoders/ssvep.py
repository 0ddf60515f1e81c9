"""SSVEP evidence: how much likelier EEG is with a response at one frequency than with none.

The Fourier coefficients z (leads) at a stimulus frequency and its harmonics are a sufficient
statistic. With noise of covariance N a response adds an amplitude whose mean M (the part locked
in phase to the stimulus) and covariance S are the person's own: z / sqrt(seconds) ~ CN(M, S + N
/ seconds). Neighbouring frequencies, too close to tell apart by power, differ by the phase that
M predicts. `ResponseModel` learns M and S without labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders.demodulator import Array, Complex, Demodulator
from decoders.narrowband_noise import NarrowbandNoise
from decoders.response_model import ResponseModel, Sample

HARMONICS = 3
ONSETS_S = (0.1, 0.5, 1.0, 1.5)
"""When a response may set in: some people look up late. Their own is learned."""
BESIDE_HZ = np.array([-3.0, -2.5, -2.0, -1.5, -1.0, 1.0, 1.5, 2.0, 2.5, 3.0])
TRUST_IN_BACKGROUND = 10.0
"""How many coefficients beside the stimulus the noise level of the session so far is worth."""
MIN_WINDOW_S = 0.2


@dataclass(frozen=True)
class Evidence:
    """What a trial says so far. log_odds (frequencies,): against no response at all."""

    log_odds: Array
    sample: Sample | None


class SsvepDetector:
    """Fed a session's filtered samples, told of trials; gives evidence at any moment."""

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
        """Take in filtered samples (n, leads)."""
        self._noise.push(x)
        if self._running:
            self._sums.push(x)

    def begin(self) -> None:
        """The next sample is the first of a trial's stimulus: phase 0."""
        self._sums.restart()
        self._running = True
        self._noise_now = self._noise.covariance() if self._noise.ready else None
        if self._noise_now is not None:
            self.response.adopt(self._noise_now)

    def evidence(self) -> Evidence:
        """Log odds of a response at each frequency; zeros while nothing is known yet."""
        sample = self._sample()
        if sample is None:
            return Evidence(np.zeros(self.response.n_frequencies), None)
        return Evidence(self.response.log_odds(sample), sample)

    def end(self) -> None:
        """The next sample belongs to no trial."""
        self._running = False

    def learn(self, evidence: Evidence, prior: Array) -> None:
        """Learn from a whole trial. prior (frequencies + 1,): belief from elsewhere, none last."""
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
            z=z[..., 0, :].copy(),  # a view would keep all that lies beside it
            noise_level=np.array([self.response.pooled(level) for level in levels]),
            seconds=np.where(usable, lengths / self._rate, 0.0),
        )


def _noise_level(beside: Complex, inverse_noise: Array) -> NDArray[np.float64]:
    """This trial's noise over the session's: (onsets, frequencies, harmonics)."""
    n_leads = beside.shape[-1]
    white = beside @ inverse_noise
    size = np.einsum("dfhsc,dfhsc->dfh", beside.conj(), white).real / n_leads
    level: Array = (TRUST_IN_BACKGROUND + size) / (TRUST_IN_BACKGROUND + beside.shape[-2])
    return level
