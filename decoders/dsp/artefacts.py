"""An artefact is what a lead shows that no brain does: a jump, a loose contact, a flat line."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


EVERY = 8
"""The usual size is looked at in one sample of so many."""
FIRST_STEP, STEP_DECAY = 0.3, 5.0
"""The tracker's steps fall as STEP_DECAY / looks so far: soon there, then calm."""
START_SIZE_UV = 10.0


class Limiter:
    """Limits each lead to `factor` times its own usual size, so one jump can't outweigh an hour.

    The usual size is the running median of |x| over about `memory_s`, tracked by steps up or down: a
    jump moves it no more than any other sample, however high it is. Causal, and the same for any split
    of the stream. Feed it high-passed data. In the first `settle_s` nothing is limited.
    """

    def __init__(
        self,
        n_leads: int,
        rate: float,
        factor: float = 10.0,
        memory_s: float = 20.0,
        settle_s: float = 3.0,
    ) -> None:
        self._factor = factor
        self._last_step = min(FIRST_STEP, EVERY / (memory_s * rate))
        self._settle = int(settle_s * rate) // EVERY * EVERY
        self._seen = 0
        self._size = np.full(n_leads, START_SIZE_UV)

    def step(self, x: Array) -> Array:
        """x (n, leads), finite -> limited (n, leads); x itself is not changed."""
        pieces = []
        while len(x):
            if self._seen % EVERY == 0:
                self._track(np.abs(x[0]))
            n = EVERY - self._seen % EVERY
            pieces.append(self._limited(x[:n]))
            self._seen += len(x[:n])
            x = x[n:]
        return np.concatenate(pieces) if pieces else x

    def _track(self, height: Array) -> None:
        looks = self._seen // EVERY + 1
        step = max(self._last_step, min(FIRST_STEP, STEP_DECAY / looks))
        self._size = self._size * np.where(height > self._size, 1 + step, 1 / (1 + step))

    def _limited(self, x: Array) -> Array:
        if self._seen < self._settle:
            return x
        bound = self._factor * self._size
        return np.minimum(np.maximum(x, -bound), bound)


def bad_leads(window: Array, factor: float = 5.0) -> NDArray[np.bool_]:
    """Which leads of a window (samples, leads) are flat, not finite, or far louder than the others.

    Loud: a standard deviation above `factor` times the leads' median.
    """
    size = np.std(window, axis=0)
    finite = np.isfinite(size)
    if not finite.any():
        return np.ones(len(size), dtype=np.bool_)
    alive = finite & (size > 0)
    typical = float(np.median(size[alive])) if alive.any() else 0.0
    bad: NDArray[np.bool_] = ~finite | (size <= 1e-3 * typical) | (size > factor * typical)
    return bad


def winsorise(window: Array, factor: float = 6.0) -> Array:
    """A window (samples, leads), each lead limited to median +- factor * its robust deviation."""
    middle = np.median(window, axis=0)
    spread = 1.4826 * np.median(np.abs(window - middle), axis=0)
    return np.clip(window, middle - factor * spread, middle + factor * spread)
