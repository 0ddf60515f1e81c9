"""Spelling: which character each trial meant, inferred from flashes without a single label.

Unsupervised mean-difference maximisation (UMM, Sosulski and Tangermann, arXiv 2306.11830) in its
Bayesian form. In white features the response to a target differs from the others by an unknown
vector, the template ~ N(mean, variance * I). A trial in which character s was meant shows the
difference d_s of its target and other flashes, ~ N(template, I / precision). Integrating the
template out gives s's evidence in closed form: |d_s|^2 while nothing is known of the template (that
is UMM), d_s . mean when it is known (a matched filter), and the right mixture between.

Trials teach the template, and a wrong start can teach a wrong one that then confirms itself. So
several readings of the session are kept, begun from different characters; each goes over its past
trials again with what the others taught, and they are weighed by how well they foretell each trial. Where
other people's template is given, one reading begins without it: this person may be unlike them.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from decoders.dsp.covariance import Array
from decoders.erp.stopping import SpellerLayout


@dataclass(frozen=True)
class Template:
    """How a target's response differs from others', in white features: ~ N(mean, I / precision)."""

    total: Array
    """precision * mean: what lessons add up to."""
    precision: float

    @property
    def mean(self) -> Array:
        return self.total / self.precision

    @property
    def energy(self) -> float:
        """Its squared length, less what its own uncertainty adds."""
        return max(float(self.mean @ self.mean) - len(self.total) / self.precision, 0.0)

    def plus(self, lesson: "Template") -> "Template":
        return Template(self.total + lesson.total, self.precision + lesson.precision)

    def minus(self, lesson: "Template") -> "Template":
        return Template(self.total - lesson.total, self.precision - lesson.precision)


class FlashEvidence:
    """One trial in white features.

    sums (groups, features), counts (groups): of its flashes. members (characters, groups).
    """

    def __init__(self, sums: Array, counts: Array, members: Array, whitener: Array) -> None:
        self._white = sums @ whitener.T
        targets = members @ counts
        others = counts.sum() - targets
        told = (targets > 0) & (others > 0)
        targets, others = np.where(told, targets, 1.0), np.where(told, others, 1.0)
        self._contrast = np.where(
            told[:, None], members / targets[:, None] - (1 - members) / others[:, None], 0.0
        )
        self._precision = np.where(told, targets * others / (targets + others), 0.0)
        gram = self._white @ self._white.T
        self._length2 = ((self._contrast @ gram) * self._contrast).sum(axis=1)

    def logs(self, template: Template) -> Array:
        """For each character, the log-likelihood ratio of the trial against no response at all."""
        mean = template.mean
        spread = 1 + self._precision / template.precision
        along = self._contrast @ (self._white @ mean)
        logs: Array = (
            0.5 * self._length2 * self._precision * (1 - 1 / spread)
            + (along - 0.5 * float(mean @ mean)) * self._precision / spread
            - 0.5 * len(mean) * np.log(spread)
        )
        return logs

    def lesson(self, belief: Array) -> Template:
        """What the trial teaches if its character is believed to be so.

        One that could be anything teaches nothing: it is weighed by how sure it is.
        """
        weight = belief * self._precision * float(belief @ belief)
        return Template((weight @ self._contrast) @ self._white, float(weight.sum()))


PRIOR_ENERGY = 6.0
"""Expected squared length of the template in units of the noise, before anything is known."""
USUAL_PRIOR = 5.0
MAX_TRIALS = 32
"""Trials that teach: the template follows slow changes, and memory stays bounded."""
STRONG_ENERGY = 0.7
"""A template below this may well be a wrong one."""
READINGS = 6
TEMPER = 0.85
"""Flashes overlap, so together they tell less than their sum: probabilities are that much softer."""
LOG_ODDS_UNLIKE = -8.0
"""That a person is unlike those whose template is given: to be believed only when it is plain."""
HELD_TRIALS = 4
"""A reading holds on to the character that it began from until so many trials have followed."""


@dataclass(frozen=True)
class SpelledTrial:
    """What was seen of one trial: sums of the features (groups, features), and how often each group
    flashed at each position of its sequence (groups, positions)."""

    sums: Array
    counts: Array


@dataclass(frozen=True)
class Inference:
    """probabilities of the characters; energy of the template that is known by now."""

    probabilities: Array
    energy: float


class Reading:
    """One way to read the session: a belief about each past trial, and the template they teach.

    informed: it begins from other people's template, where there is one.
    """

    def __init__(self, beliefs: list[Array], held: int | None, informed: bool) -> None:
        self.informed = informed
        self.odds = 0.0 if informed else LOG_ODDS_UNLIKE
        self.beliefs: deque[Array] = deque(beliefs, maxlen=MAX_TRIALS)
        self._held = held  # place of the trial whose belief is not looked at again
        self.foretold = 0.0
        self.now: Array = np.zeros(0)

    def sweep(self, past: list[FlashEvidence], prior: Template) -> Template:
        """Look at each past trial again with what the others teach; returns what all teach."""
        lessons = [e.lesson(b) for e, b in zip(past, self.beliefs, strict=True)]
        template = prior
        for lesson in lessons:
            template = template.plus(lesson)
        self.foretold = 0.0
        for place, (evidence, lesson) in enumerate(zip(past, lessons, strict=True)):
            others = template.minus(lesson)
            logs = evidence.logs(others)
            if place == self._held:
                self.foretold += float(logs @ self.beliefs[place])
                continue
            top = float(logs.max())
            likelihood = np.exp(logs - top)
            self.foretold += top + float(np.log(likelihood.sum()))
            self.beliefs[place] = likelihood / likelihood.sum()
            template = others.plus(evidence.lesson(self.beliefs[place]))
        return template

    def trial_over(self) -> None:
        """The running trial becomes a past one."""
        full = len(self.beliefs) == MAX_TRIALS
        self.beliefs.append(self.now)
        if self._held is None:
            return
        self._held -= int(full)
        if self._held < 0 or len(self.beliefs) - self._held > HELD_TRIALS:
            self._held = None


class Spelling:
    """Trials of one session, and what they teach.

    prior: mean of the template in raw features (from other people's recordings) or None;
    prior_energy: how far this person's may lie from it.
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
        """A new trial; the one before it teaches from now on."""
        if self._now is not None and self._unaided is not None:
            self._past.append(self._now)
            for reading in self._readings:
                reading.trial_over()
            self._begin_readings(self._unaided)
        groups = self._members.shape[1]
        self._now = SpelledTrial(np.zeros((groups, self._n_features)), np.zeros((groups, groups)))
        self._unaided = None

    def add(self, group: int, features: Array, position: int = 0) -> None:
        """A flash of the running trial; position: how many flashes of its sequence came before."""
        if self._now is None:
            return
        position = min(position, len(self._now.sums) - 1)
        self._now.sums[group] += features
        self._now.counts[group, position] += 1
        self._by_position.sums[position] += features
        self._by_position.counts[position] += 1

    def _usual(self) -> Array:
        """(positions, features): what any flash shows at each position of a sequence.

        After the gap between sequences no earlier response overlaps, and that difference, the same
        in every trial, could be taken for a template. Few flashes tell it badly, so it is shrunk.
        """
        sums, counts = self._by_position.sums, self._by_position.counts
        overall = sums.sum(axis=0) / max(float(counts.sum()), 1.0)
        usual: Array = (sums - counts * overall) / (counts + USUAL_PRIOR)
        return usual

    def infer(self, whitener: Array) -> Inference:
        """What the running trial's flashes say, given all the trials before."""
        assert self._now is not None  # the decoder infers within a trial only
        usual = self._usual()
        *past, now = (self._evidence(trial, usual, whitener) for trial in (*self._past, self._now))
        priors = [self._prior_template(whitener, reading.informed) for reading in self._readings]
        templates = [r.sweep(past, prior) for r, prior in zip(self._readings, priors, strict=True)]
        logs = np.array([now.logs(template) for template in templates])
        for reading, own in zip(self._readings, logs, strict=True):
            reading.now = _normalised(own)
        foretold = np.array([[r.foretold + r.odds] for r in self._readings])
        joint = _normalised(TEMPER * (logs + foretold))
        self._best = int(joint.sum(axis=1).argmax())
        self._unaided = now.logs(priors[self._best])
        self._energy = templates[self._best].energy
        return Inference(joint.sum(axis=0), self._energy)

    def learned(self) -> Array | None:
        """The template in raw features, once it is strong enough to be of use to others."""
        if self._energy < STRONG_ENERGY or not self._past:
            return None
        usual, raw = self._usual(), np.eye(self._n_features)
        lessons = [
            self._evidence(trial, usual, raw).lesson(belief)
            for trial, belief in zip(self._past, self._readings[self._best].beliefs, strict=False)
        ]
        template: Array = sum((lesson.total for lesson in lessons), np.zeros(self._n_features))
        return template / sum(lesson.precision for lesson in lessons)

    def _evidence(self, trial: SpelledTrial, usual: Array, whitener: Array) -> FlashEvidence:
        sums = trial.sums - trial.counts @ usual
        return FlashEvidence(sums, trial.counts.sum(axis=1), self._members, whitener)

    def _prior_template(self, whitener: Array, informed: bool) -> Template:
        precision = len(whitener) / self._prior_energy
        if self._prior is None or not informed:
            return Template(np.zeros(len(whitener)), precision)
        mean = whitener @ self._prior
        excess = float(mean @ mean) / PRIOR_ENERGY
        if excess > 1:  # no one answers so strongly: it was recorded in other units
            mean /= np.sqrt(excess)
        return Template(precision * mean, precision)

    def _begin_readings(self, unaided: Array) -> None:
        """Replace the readings that foretell worst by ones that begin from the trial just over."""
        best_first = sorted(self._readings, key=lambda r: -r.foretold - r.odds)
        wanted = READINGS - len(best_first) if len(self._past) == 1 else 1
        informed = self._readings[self._best].informed
        self._readings = best_first[: READINGS - wanted]
        uniform = np.full(len(self._members), 1 / len(self._members))
        for character in np.argsort(-unaided, kind="stable")[:wanted]:
            certain = np.zeros(len(self._members))
            certain[character] = 1.0
            beliefs = [uniform] * (len(self._past) - 1) + [certain]
            self._readings.append(Reading(beliefs, len(self._past) - 1, informed))


def _normalised(logs: Array) -> Array:
    likelihood = np.exp(logs - logs.max())
    normalised: Array = likelihood / likelihood.sum()
    return normalised
