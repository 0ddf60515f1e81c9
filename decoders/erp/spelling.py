"""Spelling: the character of each trial, inferred from flashes without labels.

Unsupervised mean-difference maximisation (UMM, Sosulski and Tangermann, arXiv 2306.11830) in its
Bayesian form. In white features the response to a target differs from others by an unknown vector,
the template ~ N(mean, variance * I). In a trial with character s, the difference d_s of target and
other flashes is ~ N(template, I / precision). Integrating the template out gives the evidence for s
in closed form: |d_s|^2 while the template is unknown (UMM), d_s . mean when it is known (a matched
filter), and the mixture between.

The template is learned from the trials, and a wrong start can confirm itself. So several hypotheses
("readings") of the session are kept, started from different characters; each re-evaluates its past
trials with the template of the others, and they are weighted by how well they predict each trial. If
a template of other people is given, one reading starts without it.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from decoders.dsp import Array
from decoders.erp.stopping import Inference, SpellerLayout


@dataclass(frozen=True)
class Template:
    """Difference of target and other responses, in white features: ~ N(mean, I / precision)."""

    total: Array
    """precision * mean; additive over trials."""
    precision: float

    @property
    def mean(self) -> Array:
        return self.total / self.precision

    @property
    def energy(self) -> float:
        """Squared length, minus the part due to its uncertainty."""
        return max(float(self.mean @ self.mean) - len(self.total) / self.precision, 0.0)

    def plus(self, update: "Template") -> "Template":
        return Template(self.total + update.total, self.precision + update.precision)

    def minus(self, update: "Template") -> "Template":
        return Template(self.total - update.total, self.precision - update.precision)


class FlashEvidence:
    """One trial in white features.

    sums (groups, features), counts (groups): of its flashes. members (characters, groups).
    """

    def __init__(self, sums: Array, counts: Array, members: Array, whitener: Array) -> None:
        self._white = sums @ whitener.T
        targets = members @ counts
        others = counts.sum() - targets
        known = (targets > 0) & (others > 0)
        targets, others = np.where(known, targets, 1.0), np.where(known, others, 1.0)
        self._contrast = np.where(
            known[:, None], members / targets[:, None] - (1 - members) / others[:, None], 0.0
        )
        self._precision = np.where(known, targets * others / (targets + others), 0.0)
        gram = self._white @ self._white.T
        self._length2 = ((self._contrast @ gram) * self._contrast).sum(axis=1)

    def logs(self, template: Template) -> Array:
        """Log-likelihood ratio of the trial for each character, against no response."""
        mean = template.mean
        spread = 1 + self._precision / template.precision
        along = self._contrast @ (self._white @ mean)
        logs: Array = (
            0.5 * self._length2 * self._precision * (1 - 1 / spread)
            + (along - 0.5 * float(mean @ mean)) * self._precision / spread
            - 0.5 * len(mean) * np.log(spread)
        )
        return logs

    def update(self, posterior: Array) -> Template:
        """The trial's contribution to the template, given the posterior of its character.

        Weighted by certainty: a uniform posterior contributes little.
        """
        weight = posterior * self._precision * float(posterior @ posterior)
        return Template((weight @ self._contrast) @ self._white, float(weight.sum()))


PRIOR_ENERGY = 6.0
"""Prior of the template's squared length, in noise units."""
USUAL_PRIOR = 5.0
MAX_TRIALS = 32
"""Trials that the template is learned from, to follow slow changes and bound memory."""
STRONG_ENERGY = 0.7
"""Below this energy a template may be wrong."""
READINGS = 6
TEMPER = 0.85
"""Softens the probabilities: overlapping flashes are not independent."""
LOG_ODDS_UNLIKE = -8.0
"""Prior log odds that a person differs from those whose template is given."""
HELD_TRIALS = 4
"""A reading keeps its first character fixed until so many trials have followed."""


@dataclass(frozen=True)
class SpelledTrial:
    """One trial: sums of the features (groups, features), and number of flashes by group and position
    in the sequence (groups, positions)."""

    sums: Array
    counts: Array


class Reading:
    """One hypothesis about the session: a posterior for each past trial.

    informed: starts from other people's template, if there is one.
    """

    def __init__(self, posteriors: list[Array], held: int | None, informed: bool) -> None:
        self.informed = informed
        self.odds = 0.0 if informed else LOG_ODDS_UNLIKE
        self.posteriors: deque[Array] = deque(posteriors, maxlen=MAX_TRIALS)
        self._held = held  # index of the trial whose posterior is fixed
        self.predicted = 0.0
        self.now: Array = np.zeros(0)

    def sweep(self, past: list[FlashEvidence], prior: Template) -> Template:
        """Re-evaluate each past trial with the template of the others; returns the template of all."""
        updates = [e.update(b) for e, b in zip(past, self.posteriors, strict=True)]
        template = prior
        for update in updates:
            template = template.plus(update)
        self.predicted = 0.0
        for place, (evidence, update) in enumerate(zip(past, updates, strict=True)):
            others = template.minus(update)
            logs = evidence.logs(others)
            if place == self._held:
                self.predicted += float(logs @ self.posteriors[place])
                continue
            top = float(logs.max())
            likelihood = np.exp(logs - top)
            self.predicted += top + float(np.log(likelihood.sum()))
            self.posteriors[place] = likelihood / likelihood.sum()
            template = others.plus(evidence.update(self.posteriors[place]))
        return template

    def trial_over(self) -> None:
        """Append the running trial to the past ones."""
        full = len(self.posteriors) == MAX_TRIALS
        self.posteriors.append(self.now)
        if self._held is None:
            return
        self._held -= int(full)
        if self._held < 0 or len(self.posteriors) - self._held > HELD_TRIALS:
            self._held = None


class Spelling:
    """The trials of one session, and the template learned from them.

    prior: mean template of other people in raw features, or None; prior_energy: expected squared
    distance of this person's template from it.
    """

    def __init__(
        self,
        layout: SpellerLayout,
        n_features: int,
        prior: Array | None = None,
        prior_energy: float = PRIOR_ENERGY,
    ) -> None:
        self._members = layout.membership
        self._n_features = n_features
        self._prior = prior
        self._prior_energy = prior_energy
        self._past: deque[SpelledTrial] = deque(maxlen=MAX_TRIALS)
        ways = (True,) if prior is None else (True, False)
        self._readings = [Reading([], held=None, informed=informed) for informed in ways]
        groups = self._members.shape[1]
        self._by_position = SpelledTrial(np.zeros((groups, n_features)), np.zeros((groups, 1)))
        self._best, self._energy = 0, 0.0
        self._now: SpelledTrial | None = None
        self._unaided: Array | None = None

    def begin(self) -> None:
        """Start a trial; the one before is learned from."""
        if self._now is not None and self._unaided is not None:
            self._past.append(self._now)
            for reading in self._readings:
                reading.trial_over()
            self._begin_readings(self._unaided)
        groups = self._members.shape[1]
        self._now = SpelledTrial(np.zeros((groups, self._n_features)), np.zeros((groups, groups)))
        self._unaided = None

    def add(self, group: int, features: Array, position: int = 0) -> None:
        """Add a flash of the running trial; position: number of earlier flashes in its sequence."""
        if self._now is None:
            return
        position = min(position, len(self._now.sums) - 1)
        self._now.sums[group] += features
        self._now.counts[group, position] += 1
        self._by_position.sums[position] += features
        self._by_position.counts[position] += 1

    def _usual(self) -> Array:
        """(positions, features): the mean over all flashes at each position of a sequence, shrunk.

        After the gap between sequences no earlier response overlaps; without this correction the
        difference could be mistaken for a template.
        """
        sums, counts = self._by_position.sums, self._by_position.counts
        overall = sums.sum(axis=0) / max(float(counts.sum()), 1.0)
        usual: Array = (sums - counts * overall) / (counts + USUAL_PRIOR)
        return usual

    def infer(self, whitener: Array) -> Inference:
        """Infer the character of the running trial, given all trials before."""
        assert self._now is not None  # only called within a trial
        usual = self._usual()
        *past, now = (self._evidence(trial, usual, whitener) for trial in (*self._past, self._now))
        priors = [self._prior_template(whitener, reading.informed) for reading in self._readings]
        templates = [r.sweep(past, prior) for r, prior in zip(self._readings, priors, strict=True)]
        logs = np.array([now.logs(template) for template in templates])
        for reading, own in zip(self._readings, logs, strict=True):
            reading.now = _normalised(own)
        predicted = np.array([[r.predicted + r.odds] for r in self._readings])
        joint = _normalised(TEMPER * (logs + predicted))
        self._best = int(joint.sum(axis=1).argmax())
        self._unaided = now.logs(priors[self._best])
        self._energy = templates[self._best].energy
        return Inference(joint.sum(axis=0), self._energy)

    def learned(self) -> Array | None:
        """The template in raw features; None while it is too weak to be used as a prior."""
        if self._energy < STRONG_ENERGY or not self._past:
            return None
        usual, raw = self._usual(), np.eye(self._n_features)
        updates = [
            self._evidence(trial, usual, raw).update(posterior)
            for trial, posterior in zip(
                self._past, self._readings[self._best].posteriors, strict=False
            )
        ]
        template: Array = sum((update.total for update in updates), np.zeros(self._n_features))
        return template / sum(update.precision for update in updates)

    def _evidence(self, trial: SpelledTrial, usual: Array, whitener: Array) -> FlashEvidence:
        sums = trial.sums - trial.counts @ usual
        return FlashEvidence(sums, trial.counts.sum(axis=1), self._members, whitener)

    def _prior_template(self, whitener: Array, informed: bool) -> Template:
        precision = len(whitener) / self._prior_energy
        if self._prior is None or not informed:
            return Template(np.zeros(len(whitener)), precision)
        mean = whitener @ self._prior
        excess = float(mean @ mean) / PRIOR_ENERGY
        if excess > 1:  # implausibly strong: recorded in other units
            mean /= np.sqrt(excess)
        return Template(precision * mean, precision)

    def _begin_readings(self, unaided: Array) -> None:
        """Replace the readings that predict worst by new ones that start from the trial just over."""
        best_first = sorted(self._readings, key=lambda r: -r.predicted - r.odds)
        wanted = READINGS - len(best_first) if len(self._past) == 1 else 1
        informed = self._readings[self._best].informed
        self._readings = best_first[: READINGS - wanted]
        uniform = np.full(len(self._members), 1 / len(self._members))
        for character in np.argsort(-unaided, kind="stable")[:wanted]:
            certain = np.zeros(len(self._members))
            certain[character] = 1.0
            posteriors = [uniform] * (len(self._past) - 1) + [certain]
            self._readings.append(Reading(posteriors, len(self._past) - 1, informed))


def _normalised(logs: Array) -> Array:
    likelihood = np.exp(logs - logs.max())
    normalised: Array = likelihood / likelihood.sum()
    return normalised
