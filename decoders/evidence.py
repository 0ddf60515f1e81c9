"""Evidence: what a trial's flashes say for each character, given what is known of the template."""

from dataclasses import dataclass

import numpy as np

from decoders.covariance import Array


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


class Evidence:
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
