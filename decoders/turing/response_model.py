"""A person's response to flicker: mean (phase-locked) and covariance, learned without labels.

Expectation maximisation over the trials so far, with the posterior of each trial's frequency.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoders.dsp import Array, ComplexArray
from decoders.dsp.spd import by_eigenvalues

GAINS = (0.3, 1.0, 3.0)
"""Possible strengths of a trial's response, relative to the person's mean."""
PRIOR_TRIALS = 8.0
"""Weight of the prior of the response, in trials."""
PRIOR_SNR = 0.1
"""Prior signal-to-noise power ratio in one second, at the first harmonic."""
PRIOR_OWN_LEAD = 0.3
"""Share of the prior that is independent between leads; the rest is common to all."""
NEAR_HZ = 1.0
FAR_SHARE = 0.3
"""Frequencies within NEAR_HZ share a response; others this share of its covariance."""
LATENCIES_S = np.arange(0.06, 0.241, 0.01)
MEMORY_TRIALS = 40
EM_ROUNDS = 2


@dataclass(frozen=True)
class Sample:
    """Coefficients at the stimulus frequencies, for each possible onset.

    z (..., onsets, frequencies, harmonics, leads): Fourier sums / sqrt(samples).
    noise_level (..., onsets, frequencies, harmonics): of this trial, relative to the session's.
    seconds (..., onsets): length of each window, 0 before its onset.
    The leading axes, if any, are trials.
    """

    z: ComplexArray
    noise_level: Array
    seconds: Array


class ResponseModel:
    """Log odds of a response, with a model that is learned from the trials."""

    def __init__(
        self, frequencies_hz: Sequence[float], harmonics: int, onsets: int, n_leads: int
    ) -> None:
        self._hz = np.array(frequencies_hz, dtype=np.float64)
        self._harmonic = np.arange(1, harmonics + 1)
        self._nearness = np.exp(-0.5 * ((self._hz[:, None] - self._hz) / NEAR_HZ) ** 2)
        self._share = FAR_SHARE + (1 - FAR_SHARE) * self._nearness
        near = np.abs(self._hz[:, None] - self._hz) <= NEAR_HZ
        self._averaging = near / near.sum(axis=1, keepdims=True)
        shape = (len(self._hz), harmonics, n_leads)
        self._mean: ComplexArray = np.zeros(shape, dtype=np.complex128)
        self._covariance: Array | None = None
        self._onset_weight: Array = np.ones(onsets)
        self._trials: list[tuple[Sample, Array]] = []
        self._noise: Array = np.zeros((*shape, n_leads))
        self.inverse_noise: Array = np.zeros((*shape, n_leads))
        self.latency_s = 0.14

    @property
    def n_frequencies(self) -> int:
        return len(self._hz)

    def pooled(self, noise: Array) -> Array:
        """Noise (frequencies, ...) averaged over neighbouring frequencies.

        A response can be hundreds of times the noise: with separate estimates, frequencies 0.1 Hz
        apart would differ by the errors of the estimates.
        """
        return np.asarray(np.tensordot(self._averaging, noise, axes=1))

    def set_noise(self, noise: Array) -> None:
        """Set the noise covariance (frequencies, harmonics, leads, leads)."""
        self._noise = self.pooled(noise)
        self.inverse_noise = np.asarray(np.linalg.inv(self._noise), dtype=np.float64)
        if self._covariance is None:
            self._covariance = self._prior_covariance()
        self._diagonalise(self._covariance)

    def log_odds(self, sample: Sample) -> Array:
        """(frequencies,): log odds against no response, over all onsets and gains."""
        joint = self._joint_log_odds(sample)
        return np.asarray(np.logaddexp.reduce(joint.reshape(-1, self.n_frequencies), axis=0))

    def learn(self, sample: Sample, prior: Array) -> None:
        """Add a trial, and refine the model over all trials kept.

        prior (frequencies + 1,): of the trial, from other evidence; the last is no response.
        """
        self._trials = [*self._trials, (sample, prior)][-MEMORY_TRIALS:]
        trials = Sample(
            np.array([s.z for s, _ in self._trials]),
            np.array([s.noise_level for s, _ in self._trials]),
            np.array([s.seconds for s, _ in self._trials]),
        )
        priors = np.array([p for _, p in self._trials])
        for _ in range(EM_ROUNDS):
            self._refine(trials, self._posterior(trials, priors))

    def _prior_covariance(self) -> Array:
        n_leads = self._noise.shape[-1]
        power = np.trace(self._noise, axis1=2, axis2=3) / n_leads * PRIOR_SNR / self._harmonic
        own, common = np.eye(n_leads), np.ones((n_leads, n_leads))
        pattern = PRIOR_OWN_LEAD * own + (1 - PRIOR_OWN_LEAD) * common
        return np.asarray(power[..., None, None] * pattern)

    def _diagonalise(self, covariance: Array) -> None:
        """A basis of the leads in which noise is 1 and the response's covariance is diagonal."""
        root = np.linalg.inv(np.linalg.cholesky(self._noise))
        power, axes = np.linalg.eigh(root @ covariance @ np.swapaxes(root, -1, -2))
        self._power = np.maximum(power, 0.0)
        self._basis = np.swapaxes(axes, -1, -2) @ root
        self._mean_white = (self._basis @ self._mean[..., None])[..., 0]

    def _joint_log_odds(self, sample: Sample) -> Array:
        """(..., onsets, gains, frequencies), weighted by the prior of onset and gain."""
        u = (self._basis @ sample.z[..., None])[..., 0]
        size = np.abs(u) ** 2
        along = (u.conj() * self._mean_white).real
        locked = np.abs(self._mean_white) ** 2
        level = sample.noise_level[..., None]
        odds = []
        for gain in GAINS:
            strength = (gain * sample.seconds)[..., None, None, None]
            spread = level + strength * self._power
            off = size - 2 * np.sqrt(strength) * along + strength * locked
            odds.append((size / level - off / spread - np.log(spread / level)).sum(axis=(-1, -2)))
        weight = np.log(self._onset_weight / self._onset_weight.sum() / len(GAINS))
        return np.asarray(np.stack(odds, axis=-2) + weight[:, None, None])

    def _posterior(self, trials: Sample, priors: Array) -> Array:
        """(trials, onsets, frequencies); the rest to 1 is the probability of no response."""
        known = np.log(priors + 1e-12)
        joint = self._joint_log_odds(trials) + known[:, None, None, :-1]
        response = np.logaddexp.reduce(joint.reshape(len(priors), -1), axis=1)
        total = np.logaddexp(response, known[:, -1])
        return np.asarray(np.exp(joint - total[:, None, None, None]).sum(axis=2))

    def _refine(self, trials: Sample, posterior: Array) -> None:
        """The M step: the most likely model given the posteriors and the prior."""
        self._onset_weight = 1 + posterior.sum(axis=(0, 2))
        seconds = np.maximum(trials.seconds, 1e-9)[..., None, None]
        share = (posterior * (trials.seconds > 0)[..., None])[..., None]
        amplitude = (share / np.sqrt(seconds))[..., None] * trials.z
        power = (share / seconds)[..., None] * trials.z
        square = np.einsum("kdfhc,kdfhe->fhce", power, trials.z.conj(), optimize=True).real
        noise = (share * trials.noise_level / seconds).sum(axis=(0, 1))[..., None, None]
        excess = _nonnegative(square - noise * self._noise)
        self._update(amplitude.sum(axis=(0, 1)), excess, posterior.sum(axis=(0, 1)))

    def _update(self, amplitude: ComplexArray, excess: Array, count: Array) -> None:
        rotated = self._align(amplitude)
        turn = np.exp(-2j * np.pi * self.latency_s * self._hz[:, None] * self._harmonic)
        near_trials = (PRIOR_TRIALS + self._nearness @ count)[:, None, None]
        self._mean = np.tensordot(self._nearness, rotated, axes=1) / near_trials * turn[..., None]
        shared = np.einsum("fg,ghce->fhce", self._share, excess)
        trials = (PRIOR_TRIALS + self._share @ count)[:, None, None, None]
        whole = (PRIOR_TRIALS * self._prior_covariance() + shared) / trials
        locked = np.einsum("fhc,fhe->fhce", self._mean, self._mean.conj()).real
        self._covariance = _nonnegative(whole - locked)
        self._diagonalise(self._covariance)

    def _align(self, amplitude: ComplexArray) -> ComplexArray:
        """Rotate the amplitudes back by the latency at which their phases agree best."""
        phase = 2j * np.pi * np.multiply.outer(LATENCIES_S, self._hz[:, None] * self._harmonic)
        turned = np.exp(phase)[..., None] * amplitude
        together = np.einsum("fg,lghc->lfhc", self._nearness, turned, optimize=True)
        best = int(np.argmax((np.abs(together) ** 2).sum(axis=(1, 2, 3))))
        self.latency_s = float(LATENCIES_S[best])
        return np.asarray(turned[best])


def _nonnegative(matrices: Array) -> Array:
    """The nearest symmetric matrices without negative eigenvalues."""
    return by_eigenvalues(matrices, lambda power: np.maximum(power, 0.0))
