"""Limits artefacts (jumps, loose contacts) in a running stream."""

import numpy as np

from decoders.dsp import Array

EVERY = 8
"""The typical amplitude is updated at every eighth sample."""
FIRST_STEP, STEP_DECAY = 0.3, 5.0
"""The tracker's relative step falls as STEP_DECAY / updates, for fast convergence."""
START_SIZE_UV = 10.0


class Limiter:
    """Clips each lead at `factor` times its typical amplitude.

    The typical amplitude is the running median of |x| over about `memory_s` seconds, tracked by steps
    up or down, so an outlier moves it no more than any other sample. Causal, and independent of how
    the stream is split. Input must be high-passed. Nothing is clipped in the first `settle_s`.
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
        """x (n, leads), finite -> a clipped copy (n, leads)."""
        pieces = []
        while len(x):
            if self._seen % EVERY == 0:
                self._track(np.abs(x[0]))
            n = EVERY - self._seen % EVERY
            pieces.append(self._clip(x[:n]))
            self._seen += len(x[:n])
            x = x[n:]
        return np.concatenate(pieces) if pieces else x

    def _track(self, amplitude: Array) -> None:
        updates = self._seen // EVERY + 1
        step = max(self._last_step, min(FIRST_STEP, STEP_DECAY / updates))
        self._size = self._size * np.where(amplitude > self._size, 1 + step, 1 / (1 + step))

    def _clip(self, x: Array) -> Array:
        if self._seen < self._settle:
            return x
        bound = self._factor * self._size
        return np.minimum(np.maximum(x, -bound), bound)
