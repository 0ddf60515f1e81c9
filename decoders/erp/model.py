"""A probabilistic model of a speller session, learned without labels by variational Bayes.

In white innovations a trial is  e = X_0 b_0 + X_s b + noise:  b_0 the response to any flash, b what a
flash of the character s that is looked at adds, X_0 and X_s their overlapping designs. b (bumps,
leads) is matrix normal with precision (bumps, bumps), the same for all leads. The posteriors of b and
of the characters of past trials are fitted in turns (E and M steps). The evidence of the running
trial for each character integrates b out.

The optimum is not unique. So several fits of the session are kept, which start from other characters
or from a prior of another latency, and they are weighted by their lower bounds of the evidence.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array
from decoders.erp.noise import LAGS, GridSample, Whitening
from decoders.erp.response import (
    CENTRES_S,
    N_BUMPS,
    Contrasts,
    TrialSums,
    flash_gram,
    shift,
    whitened,
)
from decoders.erp.stopping import Inference, SpellerLayout

MAX_TRIALS = 32
"""Trials that the responses are learned from, to follow slow changes and bound memory."""
FITS = 8
FIRST_STEPS, STEPS = 4, 1
"""EM steps at the first decision of a trial, and at later ones."""
LATENCIES_KEPT = 3
LATENCIES_S = (-0.055, 0.055, 0.11)
"""Latencies that are tried beside other people's: trigger delays differ between set-ups."""
WEAKER = 0.5
FEW_TRIALS = 4
NOT_LOOKING = 0.04
"""Prior probability that the person does not look at any character in a trial."""
COMMON_VARIANCE = 1.0
TYPICAL_VARIANCE, PEAK_S, SPREAD_S = 0.1, 0.27, 0.1
"""Prior variance of b without other people: its mean over the bumps, and its course."""
LEAST_VARIANCE = 0.003
SCALE_TRIALS = 4.0
"""How many trials the prior of the noise scale is worth."""
FLASH_ENERGY, TRIAL_ENERGY = 1.5, 10.0
"""Usual d'^2 of a flash, and difference of targets and others in a trial."""
LEAST_KNOWN = 0.2
"""Share of a flash's energy by which evidence grows before anything is known of the response."""
FIRST_SLOPE, LEAST_SLOPE = 0.6, 0.1
"""Before trials are compared: what was learned from few of them fits them too well."""
MISFIT_RIDGE, NEGLIGIBLE = 1e-3, 1e-9


@dataclass(frozen=True)
class ResponsePrior:
    """Prior of b: mean (bumps, leads) in units of the leads' standard deviations, and covariance
    (bumps, bumps) in white units."""

    mean: Array
    cov: Array

    def variants(self) -> list["ResponsePrior"]:
        """The same with other latencies, and a weaker one."""
        moved = [self] + [self._later(by_s) for by_s in LATENCIES_S]
        return [*moved, ResponsePrior(WEAKER * self.mean, self.cov)] if self.mean.any() else moved

    def _later(self, by_s: float) -> "ResponsePrior":
        moved = shift(by_s)
        cov = moved @ self.cov @ moved.T + LEAST_VARIANCE * np.eye(N_BUMPS)
        return ResponsePrior(moved @ self.mean, cov)


def weak_prior(n_leads: int) -> ResponsePrior:
    """The prior without other people: only the usual time of responses is known."""
    course = np.exp(-0.5 * ((CENTRES_S - PEAK_S) / SPREAD_S) ** 2) + 0.02
    return ResponsePrior(
        np.zeros((N_BUMPS, n_leads)), np.diag(TYPICAL_VARIANCE * course / course.mean())
    )


@dataclass(frozen=True)
class Response:
    """Matrix normal b: natural mean (bumps, leads) and precision (bumps, bumps)."""

    total: Array
    precision: Array

    @property
    def mean(self) -> Array:
        return np.asarray(np.linalg.solve(self.precision, self.total), dtype=np.float64)


@dataclass
class Fit:
    """One fit of the session.

    prior: index of its prior. posteriors (trials, hypotheses). held: the trial whose character is
    fixed in the first steps. bound: lower bound of the log evidence.
    """

    prior: int
    posteriors: Array
    held: int | None = None
    bound: float = 0.0


@dataclass(frozen=True)
class PastTrial:
    """signal (groups, bumps, rows) and overlap (groups, bumps, bumps) of each group with all flashes;
    grams (characters, bumps, bumps); pairs (pairs of groups, bumps^2)."""

    signal: NDArray[np.float32]
    overlap: NDArray[np.float32]
    grams: NDArray[np.float32]
    pairs: NDArray[np.float32]

    def covariance(self, response: Array) -> Array:
        """(groups, groups): of the groups' scores by this response (bumps, leads)."""
        groups = len(self.signal)
        cov = np.zeros((groups, groups))
        cov[np.triu_indices(groups)] = self.pairs @ (response @ response.T).ravel()
        return np.asarray(cov + np.triu(cov, 1).T)

    @staticmethod
    def of(sums: TrialSums, contrasts: Contrasts) -> "PastTrial":
        first, second = np.triu_indices(len(sums.gram))
        pairs = sums.gram[first, :, second].reshape(-1, N_BUMPS**2)
        found = (sums.signal, sums.gram.sum(axis=2), contrasts.grams(sums.gram), pairs)
        return PastTrial(*(np.array(each, dtype=np.float32) for each in found))


@dataclass(frozen=True)
class WhiteTrials:
    """White trials: signals (trials, groups, bumps * leads), grams (trials, hypotheses, bumps^2)."""

    signals: Array
    grams: NDArray[np.floating]
    contrasts: Array
    n_leads: int

    def first(self, n: int) -> "WhiteTrials":
        return WhiteTrials(self.signals[:n], self.grams[:n], self.contrasts, self.n_leads)

    def respond(self, prior: Response, posteriors: Array) -> Response:
        """M step: the posterior of b, given those of the characters."""
        precision = posteriors.ravel() @ self.grams.reshape(-1, N_BUMPS**2)
        weights = posteriors @ self.contrasts
        total = weights.ravel() @ self.signals.reshape(-1, N_BUMPS * self.n_leads)
        return Response(
            prior.total + total.reshape(prior.total.shape),
            prior.precision + precision.reshape(N_BUMPS, N_BUMPS),
        )

    def expect(self, response: Response) -> Array:
        """E step: (trials, characters) expected log likelihoods."""
        cov = np.linalg.inv(response.precision)
        mean = cov @ response.total
        second = mean @ mean.T + self.n_leads * cov
        along = (self.signals @ mean.ravel()) @ self.contrasts.T
        return np.asarray(along - 0.5 * self.grams @ second.ravel())

    def last_evidence(self, response: Response) -> Array:
        """(hypotheses,): log evidence of the last trial, b integrated out."""
        signals = (self.contrasts @ self.signals[-1]).reshape(-1, N_BUMPS, self.n_leads)
        precisions = response.precision + self.grams[-1].reshape(-1, N_BUMPS, N_BUMPS)
        totals = signals + response.total
        explained = np.sum(totals * np.linalg.solve(precisions, totals), axis=(1, 2))
        before = float(np.sum(response.total * response.mean))
        volume = np.linalg.slogdet(precisions)[1] - np.linalg.slogdet(response.precision)[1]
        return np.asarray(0.5 * (explained - before - self.n_leads * volume))


class SpellerModel:
    """The trials of one session and what was learned from them.

    priors: one is enough; each is also tried at other latencies.
    """

    def __init__(
        self, layout: SpellerLayout, priors: Sequence[ResponsePrior], step_s: float
    ) -> None:
        self._contrasts = Contrasts.of(layout)
        self._priors = [each for prior in priors for each in prior.variants()]
        self._n_leads = priors[0].mean.shape[1]
        self._lags = [shift(lag * step_s) for lag in range(LAGS + 1)]
        self._flash = flash_gram(step_s)
        n = len(layout.characters)
        self._past: deque[PastTrial] = deque(maxlen=MAX_TRIALS)
        self._now: TrialSums | None = None
        self._logs: Array | None = None
        self._fits = [Fit(k, np.zeros((0, n))) for k in range(len(self._priors))]
        self._temper, self._gain = FIRST_SLOPE, FIRST_SLOPE**2
        self._best = 0
        self._fresh = True

    def begin(self) -> None:
        """Start a trial; the one before is learned from."""
        if self._now is not None and self._logs is not None:
            self._keep(self._now, self._logs)
        self._now = TrialSums(self._contrasts.weights.shape[1], self._n_leads)
        self._logs = None
        self._fresh = True

    def add(self, samples: Sequence[GridSample]) -> None:
        """Add grid samples of the running trial."""
        if self._now is not None:
            self._now.add(samples)

    def infer(self, whitening: Whitening) -> Inference:
        """Infer the character of the running trial, given all trials before."""
        assert self._now is not None  # only called within a trial
        self._now.update()
        trials = self._white(whitening)
        past = trials.first(len(self._past))
        priors = [self._white_prior(prior, self._whitening) for prior in self._priors]
        responses = [self._improve(fit, past, priors[fit.prior]) for fit in self._fits]
        self._fresh = False
        self._trials = trials
        self._logs = np.array([self._temper * trials.last_evidence(each) for each in responses])
        joint = normalised(self._logs + np.array([[fit.bound] for fit in self._fits]))
        shares = joint.sum(axis=1)
        self._best = int(shares.argmax())
        self._response = responses[self._best]
        self._mean_response: Array = np.tensordot(shares, [each.mean for each in responses], axes=1)
        self._unaided = trials.last_evidence(priors[self._fits[self._best].prior])
        self._common_response = self._common
        found = joint.sum(axis=0)
        found = (1 - NOT_LOOKING) * found + NOT_LOOKING / len(found)
        return Inference(found, self._energy(), self._known())

    def flash_weights(self) -> tuple[Array, Array]:
        """Of the mean response of all fits at the last inference: weights (bumps, rows) of a
        flash's products with the signal, and (bumps, bumps) of its products with all flashes."""
        mean = self._mean_response
        return mean @ self._whitening.filters.T, mean @ self._common_response.T

    def learned(self) -> Array | None:
        """b (bumps, leads) in units of the leads' standard deviations; None before any trial."""
        if not self._past:
            return None
        posteriors = self._fits[min(self._best, len(self._fits) - 1)].posteriors
        total = np.zeros((N_BUMPS, self._n_leads))
        gram = np.eye(N_BUMPS)
        for trial, posterior in zip(self._past, posteriors, strict=False):
            weights = posterior @ self._contrasts.weights
            total += np.tensordot(weights, trial.signal[:, :, : self._n_leads], axes=1)
            gram += np.tensordot(posterior, trial.grams, axes=1)
        return np.linalg.solve(gram, total) / self._whitening.sd_uv

    def _energy(self) -> float:
        """d'^2 of one flash, as far as the response is known and as past trials bear it out."""
        mean = self._response.mean
        found = self._gain * float(np.sum(self._flash * (mean @ mean.T)))
        n = len(self._past)
        return (SCALE_TRIALS * FLASH_ENERGY + n * found) / (SCALE_TRIALS + n)

    def _known(self) -> float:
        """The share of the energy that the responses of all fits have in common: their mean's."""
        own = float(np.sum(self._flash * (self._mean_response @ self._mean_response.T)))
        energy = self._gain * own
        return min(max(energy / self._energy(), LEAST_KNOWN), 1.0)

    def _white(self, whitening: Whitening) -> WhiteTrials:
        """All trials in white units, the common response subtracted."""
        assert self._now is not None
        if self._fresh or len(self._past) < FEW_TRIALS:
            self._whiten_past(whitening)
        whitening = self._whitening
        own = self._now.signal @ whitening.filters
        overlap = self._now.gram.sum(axis=2)
        whole = self._past_overlaps.sum(axis=(0, 1)) + overlap.sum(axis=0)
        total = self._past_signals.sum(axis=(0, 1)) + own.sum(axis=0)
        self._common: Array = np.linalg.solve(whole + np.eye(N_BUMPS) / COMMON_VARIANCE, total)
        past = self._past_signals - self._past_overlaps @ self._common
        rest = np.concatenate([past, (own - overlap @ self._common)[None]])
        own_grams = self._contrasts.grams(self._now.gram).astype(np.float32)
        grams = np.stack([*self._past_grams, own_grams])
        return WhiteTrials(
            rest.reshape(len(rest), rest.shape[1], -1),
            grams.reshape(len(rest), -1, N_BUMPS**2),
            self._contrasts.weights,
            self._n_leads,
        )

    def _whiten_past(self, whitening: Whitening) -> None:
        """Once a trial, from the fifth on: the noise has changed little since."""
        self._whitening = whitening
        shape = (-1, self._contrasts.weights.shape[1], N_BUMPS)
        past = list(self._past)
        self._past_grams = [each.grams for each in past]
        self._past_overlaps = np.array([each.overlap for each in past]).reshape(*shape, N_BUMPS)
        signals = [each.signal @ whitening.filters for each in past]
        self._past_signals = np.array(signals).reshape(*shape, self._n_leads)

    def _white_prior(self, prior: ResponsePrior, whitening: Whitening) -> Response:
        precision = np.asarray(np.linalg.inv(prior.cov), dtype=np.float64)
        mean = whitened(prior.mean * whitening.sd_uv, whitening, self._lags)
        return Response(precision @ mean, precision)

    def _improve(self, fit: Fit, past: WhiteTrials, prior: Response) -> Response:
        """EM steps of a fit; returns its posterior of b."""
        if not len(fit.posteriors):
            return prior
        for step in range(FIRST_STEPS if self._fresh else STEPS):
            response = past.respond(prior, fit.posteriors)
            logs = self._temper * past.expect(response)
            improved = normalised(logs, axis=1)
            if fit.held is not None and step < STEPS:
                improved[fit.held] = fit.posteriors[fit.held]
            fit.posteriors = improved
        fit.bound = float(_log_sum(logs).sum()) - _divergence(response, prior)
        return past.respond(prior, fit.posteriors)

    def _keep(self, now: TrialSums, logs: Array) -> None:
        """Add the trial just over to all fits, and start new fits from the characters that it
        supports by itself."""
        self._calibrate()
        full = len(self._past) == MAX_TRIALS
        self._past.append(PastTrial.of(now, self._contrasts))
        order = self._best_first(logs)
        best = self._fits[order[0]]
        wanted = FITS - LATENCIES_KEPT if len(self._past) == 1 else max(2, FITS - len(order))
        fits = [
            Fit(self._fits[k].prior, _appended(self._fits[k].posteriors, normalised(logs[k]), full))
            for k in order[: FITS - wanted]
        ]
        for character in np.argsort(-self._unaided, kind="stable")[:wanted]:
            certain = np.eye(logs.shape[1])[character]
            uniform = np.full_like(best.posteriors, 1 / logs.shape[1])
            posteriors = _appended(uniform, certain, full)
            fits.append(Fit(best.prior, posteriors, held=len(posteriors) - 1))
        self._fits = fits

    def _best_first(self, logs: Array) -> list[int]:
        """The fits by their evidence; of those with the same prior and characters only the best."""
        bounds = [fit.bound + _log_sum(own) for fit, own in zip(self._fits, logs, strict=True)]
        kept: dict[tuple[int, ...], int] = {}
        for k in np.argsort(-np.array(bounds), kind="stable"):
            fit = self._fits[k]
            kept.setdefault((fit.prior, *fit.posteriors.argmax(axis=1).tolist()), int(k))
        return list(kept.values())

    def _calibrate(self) -> None:
        """Compare the groups' scores in each past trial with what the other trials predict.

        Responses vary, and what was learned from few trials fits them too well. slope: how large the
        difference of targets and others is, as a share of the prediction; misfit: the variance of
        the rest, as a multiple of the predicted one.
        """
        fit, trials = self._fits[self._best], self._trials
        posteriors = fit.posteriors[: len(self._past)]
        weights = posteriors @ trials.contrasts  # (trials, groups)
        groups = weights.shape[1]
        own = (weights[:, None] @ trials.signals[: len(weights)]).reshape(
            -1, N_BUMPS, self._n_leads
        )
        grams = (posteriors[:, None] @ trials.grams[: len(weights)]).reshape(-1, N_BUMPS, N_BUMPS)
        means = np.linalg.solve(self._response.precision - grams, self._response.total - own)
        n = rest = SCALE_TRIALS
        expected = SCALE_TRIALS * TRIAL_ENERGY
        seen = FIRST_SLOPE * expected
        for number, (past, mean) in enumerate(zip(self._past, means, strict=False)):
            cov = past.covariance(mean)
            typical = float(np.trace(cov)) / groups
            if typical < NEGLIGIBLE:
                continue
            scores = trials.signals[number] @ mean.ravel()
            predicted = cov @ weights[number]
            along, unit = float(weights[number] @ scores), float(weights[number] @ predicted)
            seen += along
            expected += unit
            off = scores - predicted * along / unit
            spread = cov + MISFIT_RIDGE * typical * np.eye(groups)
            rest += float(off @ np.linalg.solve(spread, off)) / (groups - 1)
            n += 1
        slope, misfit = max(seen / expected, LEAST_SLOPE), rest / n
        self._temper, self._gain = slope / misfit, slope**2 / misfit


def normalised(logs: Array, axis: int | None = None) -> Array:
    """exp(logs), scaled to a sum of 1."""
    likelihood = np.exp(logs - logs.max(axis=axis, keepdims=True))
    return np.asarray(likelihood / likelihood.sum(axis=axis, keepdims=True))


def _log_sum(logs: Array) -> Array:
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


def _divergence(response: Response, prior: Response) -> float:
    """Kullback-Leibler divergence of the posterior of b from its prior."""
    n_leads = response.total.shape[1]
    away = response.mean - prior.mean
    volume = np.linalg.slogdet(response.precision)[1] - np.linalg.slogdet(prior.precision)[1]
    shrunk = np.trace(np.linalg.solve(response.precision, prior.precision)) - N_BUMPS
    return float(0.5 * (n_leads * (shrunk + volume) + np.sum(away * (prior.precision @ away))))


def _appended(posteriors: Array, last: Array, full: bool) -> Array:
    return np.vstack([posteriors[1:] if full else posteriors, last])
