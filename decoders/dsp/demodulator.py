"""A demodulator sums a stream against complex sinusoids from a moment on: Fourier sums that grow."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Demodulator:
    """Running sums of x(t) exp(-2 pi i f t), and what they were at some moments ("marks").

    So the sum over any stretch from a mark to now is one subtraction, and a sample is touched once.
    The sums do not depend on how the stream is cut into pieces.
    """

    def __init__(
        self,
        frequencies_hz: NDArray[np.float64],
        rate: float,
        n_leads: int,
        marks: Sequence[int] = (0,),
    ) -> None:
        self._omega = -2j * np.pi * frequencies_hz.ravel() / rate
        self._shape = (*frequencies_hz.shape, n_leads)
        self._marks = tuple(marks)
        self.restart()

    def restart(self) -> None:
        """The next sample is at time 0."""
        self.count = 0
        self.total: Complex = np.zeros((len(self._omega), self._shape[-1]), dtype=np.complex128)
        self._at_mark: dict[int, Complex] = {}

    def push(self, x: Array) -> None:
        """Take in x (n, leads), any n."""
        while len(x):
            self._remember()
            ahead = [mark - self.count for mark in self._marks if mark > self.count]
            n = min([len(x), *ahead])
            self._add(x[:n])
            x = x[n:]
        self._remember()

    def since(self, mark: int) -> Complex:
        """The sums over the samples from `mark` on: (*frequencies, leads); zeros before it."""
        before = self._at_mark.get(mark)
        sums = np.zeros_like(self.total) if before is None else self.total - before
        return sums.reshape(self._shape)

    def _remember(self) -> None:
        if self.count in self._marks and self.count not in self._at_mark:
            self._at_mark[self.count] = self.total.copy()

    def _add(self, x: Array) -> None:
        times = np.arange(self.count, self.count + len(x))
        self.total += np.exp(self._omega[:, None] * times) @ x
        self.count += len(x)
