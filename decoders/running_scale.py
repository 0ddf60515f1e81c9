"""A running scale: mean and spread of features as far as they have been seen, begun from a prior."""

import numpy as np

from decoders.filters import Array


class RunningScale:
    """Standard units that a person's own data define, causally.

    The prior (other people's mean and standard deviation) weighs as much as `prior_rows` rows;
    older rows are forgotten with `memory_rows`, so slow drifts are followed.
    """

    def __init__(
        self, mean: Array, sd: Array, prior_rows: float, memory_rows: float = np.inf
    ) -> None:
        self.mean: Array = np.array(mean, dtype=np.float64)
        self._square: Array = np.where(np.isfinite(sd), sd, 1.0) ** 2 + self.mean**2
        self._weight = prior_rows
        self._memory = memory_rows

    @property
    def sd(self) -> Array:
        return np.asarray(np.sqrt(np.maximum(self._square - self.mean**2, 1e-12)))

    def update(self, row: Array) -> None:
        """Take in one row (features,); what is not finite is left out."""
        self._weight = min(self._weight + 1, self._memory)
        step = np.where(np.isfinite(row), 1 / self._weight, 0.0)
        seen = np.where(np.isfinite(row), row, 0.0)
        self.mean = self.mean + step * (seen - self.mean)
        self._square = self._square + step * (seen**2 - self._square)

    def standard(self, row: Array) -> Array:
        """The row in these units; 0 where it is not finite."""
        units = (row - self.mean) / self.sd
        return np.where(np.isfinite(units), units, 0.0)
