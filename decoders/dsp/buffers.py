"""A ring buffer with contiguous reads, and running standardisation.

The ring writes each sample twice, one capacity apart, so the last n samples are always contiguous.
"""

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import RuleError
from decoders.dsp import Array


class Ring:
    """The last `capacity_samples` of a stream of n_leads."""

    def __init__(self, capacity_samples: int, n_leads: int) -> None:
        if capacity_samples < 1:
            raise RuleError(f"ring buffer of {capacity_samples} samples: must be at least 1")
        self.capacity_samples = capacity_samples
        self.count = 0
        """Samples pushed so far, over all pushes."""
        self._twice = np.zeros((2 * capacity_samples, n_leads))

    def __len__(self) -> int:
        return min(self.count, self.capacity_samples)

    def push(self, x: NDArray[np.floating]) -> None:
        """Append x (n, leads), any n; beyond the capacity only the last samples are kept."""
        capacity = self.capacity_samples
        kept = x[-capacity:] if len(x) > capacity else x
        self.count += len(x)
        stop = (self.count - 1) % capacity + 1  # end of the newest sample in the first copy
        start = stop - len(kept)
        if start >= 0:
            self._twice[start:stop] = kept
            self._twice[start + capacity : stop + capacity] = kept
        else:  # wraps: the older part goes to the end of the first copy
            self._twice[start + capacity : stop + capacity] = kept
            self._twice[start + 2 * capacity :] = kept[:-start]
            self._twice[:stop] = kept[-start:]

    def last(self, n: int) -> Array:
        """The newest n samples, oldest first: (n, leads), a view until the next push."""
        if not 0 <= n <= len(self):
            raise RuleError(f"the last {n} samples of a ring that holds {len(self)}")
        stop = (self.count - 1) % self.capacity_samples + 1 + self.capacity_samples
        return self._twice[stop - n : stop]

    def cut(self, position: int, length: int) -> Array:
        """Samples position to position + length, counted from the first one ever pushed: a view."""
        back = self.count - position
        if length < 0 or length > back or back > len(self):
            raise RuleError(
                f"samples {position} to {position + length}: the ring holds "
                f"{self.count - len(self)} to {self.count}"
            )
        return self.last(back)[:length]


class RunningScale:
    """Causal standardisation by the running mean and standard deviation of a person's own data.

    The prior (mean and standard deviation of other people) weighs as much as `prior_rows` rows; at
    most `memory_rows` rows count, so slow drifts are followed.
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
        """Update with one row (features,); non-finite values are ignored."""
        self._weight = min(self._weight + 1, self._memory)
        step = np.where(np.isfinite(row), 1 / self._weight, 0.0)
        seen = np.where(np.isfinite(row), row, 0.0)
        self.mean = self.mean + step * (seen - self.mean)
        self._square = self._square + step * (seen**2 - self._square)

    def standard(self, row: Array) -> Array:
        """The standardised row; 0 where it is not finite."""
        units = (row - self.mean) / self.sd
        return np.where(np.isfinite(units), units, 0.0)
