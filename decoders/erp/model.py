"""A probabilistic model of a speller session, learned without labels by variational Bayes.

In white innovations a trial is  e = X_0 b_0 + X_s b + noise:  b_0 the response to any flash, b what a
flash of the character s that is looked at adds, X_0 and X_s their overlapping designs. b (bumps,
leads) is matrix normal: its covariance is one of the bumps, which is known before, times one of the
leads, which is learned, since a response has few courses over all leads. The posteriors of b and of the
characters of past trials and the covariance of the leads are fitted in turns (E and M steps). The
evidence of the running trial for each character integrates b out.

The optimum is not unique. So several fits of the session are kept, which start from other characters
or from a prior of another latency, and they are weighted by their lower bounds of the evidence.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array
from decoders.erp.noise import LAGS, GridSample, Whitening
from decoders.erp.prior import LanguagePrior, Response, ResponsePrior, WhitePrior
from decoders.erp.response import (
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
FITS = 14
FIRST_STEPS, STEPS = 4, 1
"""EM steps at the first decision of a trial, and at later ones."""
LATENCIES_KEPT = 3
FEW_TRIALS = 4
NOT_LOOKING = 0.04
"""Prior probability that the person does not look at any character in a trial."""
COMMON_VARIANCE = 1.0
SCALE_TRIALS = 4.0
"""How many trials the prior of the noise scale is worth."""
FLASH_ENERGY, TRIAL_ENERGY = 1.5, 10.0
"""Usual d'^2 of a flash, and difference of targets and others in a trial."""
FIRST_SLOPE, LEAST_SLOPE = 0.6, 0.1
"""Before trials are compared: what was learned from few of them fits them too well."""
MISFIT_RIDGE, NEGLIGIBLE = 1e-3, 1e-9


@dataclass
class Fit:
    """One fit of the session.

    prior: index of its prior. posteriors (trials, hypotheses). leads: covariance of the leads.
    held: the trial whose character is fixed in the first steps. bound: lower bound of the log evidence.
    """

    prior: int
    posteriors: Array
    leads: Array
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

    def respond(self, prior: WhitePrior, posteriors: Array) -> Response:
        """M step: the posterior of b, given those of the characters."""
        gram = posteriors.ravel() @ self.grams.reshape(-1, N_BUMPS**2)
        weights = posteriors @ self.contrasts
        total = weights.ravel() @ self.signals.reshape(-1, N_BUMPS * self.n_leads)
        return prior.response(total.reshape(N_BUMPS, -1), gram.reshape(N_BUMPS, N_BUMPS))

    def expect(self, response: Response) -> Array:
        """E step: (trials, characters) expected log likelihoods."""
        along = (self.signals @ response.mean.ravel()) @ self.contrasts.T
        return np.asarray(along - 0.5 * self.grams @ response.second_moment.ravel())

    def last_evidence(self, response: Response) -> Array:
        """(hypotheses,): log evidence of the last trial, b integrated out."""
        totals = (self.contrasts @ self.signals[-1]).reshape(-1, N_BUMPS, self.n_leads)
        grams = np.asarray(self.grams[-1], dtype=np.float64).reshape(-1, N_BUMPS, N_BUMPS)
        return response.evidence(totals, grams)


class SpellerModel:
    """The trials of one session and what was learned from them.

    priors: one is enough; each is also tried at other latencies. language: what is likely to be
    written; None: all characters alike.
    """

    def __init__(
        self,
        layout: SpellerLayout,
        priors: Sequence[ResponsePrior],
        step_s: float,
        language: LanguagePrior | None = None,
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
        self._same = np.eye(self._n_leads)
        self._nothing = np.zeros((N_BUMPS, self._n_leads)), np.zeros((N_BUMPS, N_BUMPS))
        self._fits = [Fit(k, np.zeros((0, n)), self._same) for k in range(len(self._priors))]
        self._language = language
        self._expected = np.full(n, 1 / n) if language is None else language.first
        self._found: Array | None = None
        self._temper, self._gain = FIRST_SLOPE, FIRST_SLOPE**2
        self._best = 0
        self._fresh = True

    def begin(self) -> None:
        """Start a trial; the one before is learned from."""
        if self._now is not None and self._logs is not None:
            self._keep(self._now, self._logs)
            if self._language is not None and self._found is not None:
                self._expected = self._language.after(self._found)
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
        evidence = np.array([trials.last_evidence(each) for each in responses])
        self._logs = self._temper * evidence + np.log(self._expected)
        joint = normalised(self._logs + np.array([[fit.bound] for fit in self._fits]))
        shares = joint.sum(axis=1)
        self._best = int(shares.argmax())
        self._response = responses[self._best]
        self._mean_response: Array = np.tensordot(shares, [each.mean for each in responses], axes=1)
        unaided = priors[self._fits[self._best].prior]
        self._unaided = trials.last_evidence(unaided.response(*self._nothing))
        self._common_response = self._common
        found = joint.sum(axis=0)
        found = (1 - NOT_LOOKING) * found + NOT_LOOKING / len(found)
        self._found = found
        return Inference(found, self._energy())

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

    def _white_prior(self, prior: ResponsePrior, whitening: Whitening) -> WhitePrior:
        mean = whitened(prior.mean * whitening.sd_uv, whitening, self._lags)
        root = np.asarray(np.linalg.cholesky(prior.cov), dtype=np.float64)
        return WhitePrior(mean, root, self._same)

    def _improve(self, fit: Fit, past: WhiteTrials, prior: WhitePrior) -> Response:
        """EM steps of a fit; returns its posterior of b."""
        if not len(fit.posteriors):
            return prior.response(*self._nothing)
        for step in range(FIRST_STEPS if self._fresh else STEPS):
            response = past.respond(replace(prior, leads=fit.leads), fit.posteriors)
            logs = self._temper * past.expect(response)
            improved = normalised(logs, axis=1)
            if fit.held is not None and step < STEPS:
                improved[fit.held] = fit.posteriors[fit.held]
            fit.posteriors = improved
            fit.leads = response.leads()
        fit.bound = float(_log_sum(logs).sum()) - response.divergence()
        return past.respond(replace(prior, leads=fit.leads), fit.posteriors)

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
            replace(
                self._fits[k],
                posteriors=_appended(self._fits[k].posteriors, normalised(logs[k]), full),
                held=None,
            )
            for k in order[: FITS - wanted]
        ]
        for character in np.argsort(-self._unaided, kind="stable")[:wanted]:
            certain = np.eye(logs.shape[1])[character]
            uniform = np.full_like(best.posteriors, 1 / logs.shape[1])
            posteriors = _appended(uniform, certain, full)
            fits.append(Fit(best.prior, posteriors, self._same, held=len(posteriors) - 1))
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
        means = [self._response.without(*each).mean for each in zip(own, grams, strict=True)]
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


def _appended(posteriors: Array, last: Array, full: bool) -> Array:
    return np.vstack([posteriors[1:] if full else posteriors, last])
