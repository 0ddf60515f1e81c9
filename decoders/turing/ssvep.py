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
from decoders.dsp.spd import by_eigenvalues
from decoders.turing.correlation import CanonicalEvidence

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
        self.near = np.abs(self._hz[:, None] - self._hz) <= NEAR_HZ
        self.averaging = self.near / self.near.sum(axis=1, keepdims=True)
        shape = (len(self._hz), harmonics, n_leads)
        self._mean: ComplexArray = np.zeros(shape, dtype=np.complex128)
        self._covariance: Array | None = None
        self._onset_weight: Array = np.ones(onsets)
        self._trials: list[tuple[Sample, Array]] = []
        self._noise: Array = np.zeros((*shape, n_leads))
        self.inverse_noise: Array = np.zeros((*shape, n_leads))
        self.latency_s = 0.14

    @property
    def n_trials(self) -> int:
        """How many trials were learned from and are kept."""
        return len(self._trials)

    @property
    def n_frequencies(self) -> int:
        return len(self._hz)

    def pooled(self, noise: Array) -> Array:
        """Noise (frequencies, ...) averaged over neighbouring frequencies.

        A response can be hundreds of times the noise: with separate estimates, frequencies 0.1 Hz
        apart would differ by the errors of the estimates.
        """
        return np.asarray(np.tensordot(self.averaging, noise, axes=1))

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


WINDOW_S = 2.0
HOP_S = 1.0
SIDES_HZ = np.array([-2.0, -1.0, 1.0, 2.0])
"""Zeros of a 2 s window: a response at the frequency itself does not leak there."""
MEMORY_WINDOWS = 60.0
READY_WINDOWS = 1
YOUNG_WINDOWS = 30
"""While fewer windows were seen, the noise is estimated again within a trial, once a window."""
SHRINKAGE = 0.05
"""The least share of the noise that is taken as independent between leads; more with few windows."""


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
        n_leads = self._shape[-1]
        amount = max(SHRINKAGE, n_leads / (n_leads + len(SIDES_HZ) * max(self.windows, 1)))
        sound = [_without_correlation(mend(cov), amount) for cov in mean]
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


def _without_correlation(cov: Array, amount: float) -> Array:
    """(1 - amount) * cov + amount * (its diagonal), and a little of its mean variance."""
    kept = (1 - amount) * cov + amount * np.diag(np.diagonal(cov))
    return shrink(kept, SHRINKAGE)


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
MIN_CORRELATED_S = 0.5
CORRELATE_EACH_S = 0.16
CARRIED_TRIALS = 2.0
"""After so many trials the canonical correlation has half of the weight."""
MOST_CARRIED = 10
"""After so many trials it has none."""
COMPARED = np.array([0, 1, 3, 5, 6, 8, 10])
"""The stimulus and the frequencies beside it that the correlation is compared with."""


@dataclass(frozen=True)
class SsvepEvidence:
    """The evidence of a trial so far. log_odds (frequencies,): against no response.

    correlated (frequencies,): the log odds by canonical correlation alone.
    """

    log_odds: Array
    sample: Sample | None
    correlated: Array


class SsvepDetector:
    """Push the filtered samples of a session; call begin() and end() at the bounds of trials."""

    def __init__(self, frequencies_hz: Sequence[float], rate: float, n_leads: int) -> None:
        self._rate = rate
        base = np.array(frequencies_hz, dtype=np.float64)[:, None] * np.arange(1, HARMONICS + 1)
        self._onsets = [round(onset * rate) for onset in ONSETS_S]
        nearby = base[..., None] + np.concatenate([[0.0], BESIDE_HZ])
        self._sums = Demodulator(nearby, rate, n_leads, self._onsets)
        self._noise = NarrowbandNoise(base, rate, n_leads)
        self._noise_windows = 0  # of which the noise in use was estimated
        self._running = False
        self.response = ResponseModel(frequencies_hz, HARMONICS, len(ONSETS_S), n_leads)
        self._correlation = CanonicalEvidence(n_leads)
        self._next_correlation = 0
        self._last_correlated: Array = np.zeros(len(frequencies_hz))

    def push(self, x: Array) -> None:
        """Add filtered samples (n, leads)."""
        self._noise.push(x)
        if self._running:
            self._correlation.push(x[max(self._onsets[0] - self._sums.count, 0) :])
            self._sums.push(x)

    def begin(self) -> None:
        """The next sample is the first of a stimulus: phase 0."""
        self._sums.restart()
        self._correlation.restart()
        self._next_correlation = 0
        self._running = True
        self._update_noise()

    def evidence(self) -> SsvepEvidence:
        """Log odds of a response at each frequency.

        In the first trials most of it is the canonical correlation; then more and more what was
        learned of the noise and of the person's response. Zeros before anything can be known.
        """
        sample = self._sample()
        correlated = self._correlated()
        share = self._correlation_share()
        learned = np.zeros_like(correlated) if sample is None else self.response.log_odds(sample)
        carried = self._carried(correlated, learned, share)
        return SsvepEvidence(carried, sample, correlated)

    def _carried(self, correlated: Array, learned: Array, share: float) -> Array:
        """Both kinds of evidence in one.

        A correlation can't distinguish frequencies that are near to each other: it has its share in
        whether there is a response near a frequency; which one of the near ones is up to what was
        learned alone.
        """
        if not share:
            return learned
        near = np.where(self.response.near, learned, -np.inf)
        together = np.logaddexp.reduce(near, axis=1) - np.log(self.response.near.sum(axis=1))
        return np.asarray(learned + share * (correlated - together))

    def _correlation_share(self) -> float:
        """The weight of the canonical correlation; 0 after enough trials."""
        if not self._noise_windows:
            return 1.0
        trials = self.response.n_trials
        return CARRIED_TRIALS / (CARRIED_TRIALS + trials) if trials < MOST_CARRIED else 0.0

    def _correlated(self) -> Array:
        onset = self._onsets[0]
        short = self._sums.count - onset < MIN_CORRELATED_S * self._rate
        if short or not self._correlation_share():
            return np.zeros(self.response.n_frequencies)
        if self._sums.count >= self._next_correlation:
            self._next_correlation = self._sums.count + round(CORRELATE_EACH_S * self._rate)
            odds = self._correlation.log_odds(self._sums.since(onset)[:, :, COMPARED])
            self._last_correlated = self.response.pooled(odds)
        return self._last_correlated

    def _update_noise(self) -> None:
        if self._noise.ready and self._noise.windows > self._noise_windows:
            self._noise_windows = self._noise.windows
            self.response.set_noise(self._noise.covariance())

    def end(self) -> None:
        """The next sample belongs to no trial."""
        self._running = False

    def learn(self, evidence: SsvepEvidence, prior: Array) -> None:
        """Learn from a trial. prior (frequencies + 1,): from other evidence, no response last."""
        if evidence.sample is None:
            return
        odds = np.append(self._correlation_share() * evidence.correlated, 0.0)
        known = prior * np.exp(odds - odds.max())
        self.response.learn(evidence.sample, known / known.sum())

    def _sample(self) -> Sample | None:
        if self._noise_windows < YOUNG_WINDOWS:
            self._update_noise()
        if not self._noise_windows:
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
            noise_level=self.response.averaging @ levels,
            seconds=np.where(usable, lengths / self._rate, 0.0),
        )


def _noise_level(beside: ComplexArray, inverse_noise: Array) -> NDArray[np.float64]:
    """The trial's noise relative to the session's: (onsets, frequencies, harmonics)."""
    n_leads = beside.shape[-1]
    white = beside @ inverse_noise
    size = np.einsum("dfhsc,dfhsc->dfh", beside.conj(), white).real / n_leads
    level: Array = (BACKGROUND_WEIGHT + size) / (BACKGROUND_WEIGHT + beside.shape[-2])
    return level
