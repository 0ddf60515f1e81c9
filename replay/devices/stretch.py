"""A stretch is a run of samples, each with its trigger code and its stamp, as a device gave them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray


@dataclass(frozen=True, slots=True)
class Stretch:
    """samples: (n, leads). codes: (n,), 0 for none. stamps: (n,), seconds of one clock.

    lost: (n,), how many samples the device's own counter says are missing before each one; -1
        where it says the same number twice, which is a sample less than none.
    """

    samples: FloatArray
    codes: NDArray[np.int64]
    stamps: NDArray[np.float64]
    lost: NDArray[np.int64]

    @property
    def n(self) -> int:
        return len(self.stamps)

    def cut(self, begin: int, end: int | None = None) -> "Stretch":
        if begin == 0 and end in (None, self.n):
            return self
        span = slice(begin, end)
        return Stretch(self.samples[span], self.codes[span], self.stamps[span], self.lost[span])

    def then(self, more: "Stretch") -> "Stretch":
        return Stretch(
            np.concatenate((self.samples, more.samples)),
            np.concatenate((self.codes, more.codes)),
            np.concatenate((self.stamps, more.stamps)),
            np.concatenate((self.lost, more.lost)),
        )
