"""A finite signal refuses samples that are no number: a NaN would poison every filter after it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead
from replay.readers.content import Signal, Stretch

CHECK_SAMPLES = 1 << 16
END_SAMPLES = 64


@dataclass(frozen=True)
class FiniteSignal:
    """Another signal, each piece of it checked as it is read."""

    signal: Signal
    name: str
    leads: tuple[Lead, ...]
    rate: float

    @property
    def n_samples(self) -> int:
        return self.signal.n_samples

    def read(self, start: int, stop: int) -> FloatArray:
        samples = self.signal.read(start, stop)
        # A sum is finite only if all of it is, and needs no array of its own.
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(samples.sum())
        if suspicious and not np.isfinite(samples).all():
            self._refuse(samples, start)
        return samples

    def _refuse(self, samples: FloatArray, start: int) -> None:
        row, column = np.argwhere(~np.isfinite(samples))[0]
        sample = start + int(row)
        raise SourceError(
            f"{self.name}: lead {self.leads[column].name} holds {samples[row, column]} at sample "
            f"{sample} ({sample / self.rate:.3f} s); ?nan=keep sends it as it is"
        )

    def check(self, suspects: Sequence[Stretch] | None) -> None:
        """Read what may be bad, so that it is found before the start; None: all of it.

        The ends are read in any case: a file that is cut off shows it there.
        """
        ends = ((0, END_SAMPLES), (self.n_samples - END_SAMPLES, self.n_samples))
        for begin, end in ((0, self.n_samples),) if suspects is None else (*ends, *suspects):
            end = min(end, self.n_samples)
            for start in range(max(begin, 0), end, CHECK_SAMPLES):
                self.read(start, min(start + CHECK_SAMPLES, end))
