"""mi reference: augmented covariances (time-delay embedding), tangent space, linear SVM (ACM+TS+SVM).

After Carrara and Papadopoulo (2023), with a fixed order and lag. The products of the embedded signal with
itself are summed, which is positive semi-definite for windows of any length.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array
from decoders.dsp.covariance import BandMoments
from decoders.mi.references import TangentSpaceSvm

ORDER = 3
LAG_S = 0.024
"""Three or four samples at 125 to 160 Hz."""


class LaggedMoments(BandMoments):
    """`BandMoments` of a signal together with its delayed copies."""

    def begin(self) -> None:
        self._past: list[Array] | None = None
        super().begin()

    def forget(self) -> None:
        super().forget()
        n = ORDER * len(self._places)
        self.sums = np.zeros((len(self._filters), n, n))

    def add(self, x: NDArray[np.floating]) -> None:
        kept = self._decimator.step(x[:, self._places])
        self.count += len(kept)
        lag = max(round(LAG_S * self.working_rate), 1)
        if self._past is None:
            self._past = [np.zeros((lag * (ORDER - 1), len(self._places)))] * len(self._filters)
        for band, band_filter in enumerate(self._filters):
            whole = np.concatenate([self._past[band], band_filter.step(kept)])
            begin = lag * (ORDER - 1)
            delayed = [whole[begin - k * lag : len(whole) - k * lag] for k in range(ORDER)]
            embedded = np.concatenate(delayed, axis=1)
            self.sums[band] += embedded.T @ embedded
            self._past[band] = whole[len(whole) - begin :]


class AugmentedSvm(TangentSpaceSvm):
    """Tangent space of augmented covariances and a linear support vector machine."""

    name = "mi-acm"
    moments_class: ClassVar[type[BandMoments]] = LaggedMoments
    copies: ClassVar[int] = ORDER
