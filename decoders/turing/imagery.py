"""Imagery evidence: probabilities of left-hand imagery, right-hand imagery and idling.

The band covariances of a trial are expressed as a change from the person's idle state, which is
estimated between the trials; a linear classifier trained on imagery recordings gives calibrated
probabilities. Without a model, the side with the lower rhythm decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead
from decoders.dsp import Array
from decoders.dsp.covariance import mend, shrink
from decoders.dsp.filters import FilterBank, bandpass
from decoders.dsp.leads import find_leads, leads_over, plain_name
from decoders.dsp.spd import by_eigenvalues, logarithm, upper_triangle

HAND_AREAS = re.compile(r"(?:FC|CP)[34]|C(?:Z|[1-6])")
"""Leads over both hand areas: a few hundred trials do not suffice for more."""
BANDS_HZ = ((8.0, 12.0), (12.0, 18.0), (18.0, 26.0))
BEGIN_S = 0.4
"""Left out after the cue, before imagery sets in."""
TIMES_S = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
"""When the evidence is updated, after the trial's trigger."""
IDLE_WINDOW_S = 2.0
IDLE_MEMORY = 30
SETTLE_S = 1.0
"""Left out after a trial, while the rhythm rebounds."""
SHRINKAGE = 0.02
CLASSES = ("left", "right", "idle")


@dataclass(frozen=True)
class ImageryClassifier:
    """Linear log odds of CLASSES for each of TIMES_S: weights (times, classes, features)."""

    leads: tuple[str, ...]
    weights: Array
    bias: Array

    def log_probabilities(self, time: int, features: Array) -> Array:
        scores = self.weights[time] @ features + self.bias[time]
        return np.asarray(scores - np.logaddexp.reduce(scores))


class IdleState:
    """The running mean log-covariance of idle windows, with a memory of IDLE_MEMORY windows."""

    def __init__(self) -> None:
        self.windows = 0
        self.log: Array = np.zeros(0)

    def update(self, covariance: Array) -> None:
        """Add the covariances (bands, leads, leads) of one window."""
        log = logarithm(covariance)
        self.windows += 1
        weight = min(self.windows, IDLE_MEMORY)
        self.log = log if self.windows == 1 else self.log + (log - self.log) / weight


class ImageryEvidence:
    """Push the raw leads of a session; call begin() and end() at the bounds of trials."""

    def __init__(
        self, leads: Sequence[Lead], rate: float, classifier: ImageryClassifier | None = None
    ) -> None:
        self._rate = rate
        self._classifier = classifier
        self._names = [plain_name(lead.name) for lead in leads]
        self._chosen = self._choose(leads)
        self._bank = band_filters(rate, len(self._chosen))
        self._idling = IdleState()
        self._times = [round(time * rate) for time in TIMES_S]
        self._reset_window(idle=True)

    def push(self, raw: NDArray[np.floating]) -> None:
        """Add the next raw samples (n, leads)."""
        picked = raw[:, self._chosen] * self._present
        bands = self._bank.step(picked)
        while bands.shape[1]:
            n = min(bands.shape[1], self._until - self._count)
            self._add(bands[:, :n])
            bands = bands[:, n:]

    def begin(self) -> None:
        """The next sample is a trial's first."""
        self._reset_window(idle=False)
        self.log_probabilities = self._uniform()

    def end(self) -> None:
        """The next sample belongs to no trial."""
        self._reset_window(idle=True)

    def features(self) -> Array | None:
        """The trial so far as a change from idling (features,); None while idling is unknown."""
        if not self._idling.windows or self._weight == 0:
            return None
        return change(self._idling.log, self._covariance())

    def _choose(self, leads: Sequence[Lead]) -> list[int]:
        """The model's leads, a missing one as flat; without a model those over the hand areas."""
        if self._classifier is None:
            chosen = leads_over(HAND_AREAS, leads)
            self._present = np.ones(len(chosen))
            return chosen
        places, present = find_leads(self._classifier.leads, self._names)
        self._present = present.astype(np.float64)
        return places

    def _reset_window(self, idle: bool) -> None:
        n = len(self._chosen)
        self._sum = np.zeros((len(BANDS_HZ), n, n))
        self._weight = 0
        self._count = 0
        self._idle = idle
        begin, first = (SETTLE_S, SETTLE_S + IDLE_WINDOW_S) if idle else (BEGIN_S, TIMES_S[0])
        self._from = round(begin * self._rate)
        self._until = round(first * self._rate)
        self.log_probabilities = self._uniform()

    def _add(self, bands: Array) -> None:
        useful = bands[:, max(0, self._from - self._count) :]
        self._sum += np.swapaxes(useful, 1, 2) @ useful
        self._weight += useful.shape[1]
        self._count += bands.shape[1]
        if self._count == self._until:
            self._end_window()

    def _end_window(self) -> None:
        if self._idle:
            self._idling.update(self._covariance())
            self._sum[:] = 0
            self._weight = 0
            self._until += round(IDLE_WINDOW_S * self._rate)
            return
        time = self._times.index(self._until)
        self.log_probabilities = self._classify(time)
        last = time + 1 == len(self._times)
        self._until = np.iinfo(np.int64).max if last else self._times[time + 1]

    def _classify(self, time: int) -> Array:
        features = self.features()
        if features is None:
            return self._uniform()
        if self._classifier is not None:
            return self._classifier.log_probabilities(time, features)
        names = [self._names[i] for i in self._chosen]
        return _by_side(names, features.reshape(len(BANDS_HZ), -1))

    def _covariance(self) -> Array:
        return _sound(self._sum / max(self._weight, 1))

    @staticmethod
    def _uniform() -> Array:
        return np.full(len(CLASSES), -np.log(len(CLASSES)))


def band_filters(rate: float, n_leads: int) -> FilterBank:
    """The filters of BANDS_HZ."""
    return FilterBank([bandpass(*band, rate, order=3) for band in BANDS_HZ], n_leads)


def sound_covariance(bands: Array) -> Array:
    """(bands, samples, leads) -> (bands, leads, leads), invertible."""
    return _sound(np.swapaxes(bands, 1, 2) @ bands / max(bands.shape[1], 1))


def change(reference_log: Array, covariance: Array) -> Array:
    """Tangent vectors of each band at the idle state: (bands * leads * (leads + 1) / 2,)."""
    white = by_eigenvalues(reference_log, lambda power: np.exp(-power / 2))
    return upper_triangle(logarithm(white @ covariance @ white)).ravel()


def _sound(mean: Array) -> Array:
    return np.array([shrink(mend(cov), SHRINKAGE) for cov in mean])


SIDE_GAIN, FALL_GAIN, IDLE_BIAS = 1.5, 1.0, 0.3
"""Small gains: without training, imagery against idling is weak evidence."""


def _by_side(names: list[str], features: Array) -> Array:
    """Log probabilities of CLASSES: imagery of a hand lowers the rhythm on the other side."""
    n = len(names)
    rows, columns = np.triu_indices(n)
    power = features[:, rows == columns].mean(axis=0)
    left = [power[i] for i, name in enumerate(names) if name in ("C3", "C5", "CP3", "FC3")]
    right = [power[i] for i, name in enumerate(names) if name in ("C4", "C6", "CP4", "FC4")]
    if not left or not right:
        return np.full(len(CLASSES), -np.log(len(CLASSES)))
    side = float(np.mean(left) - np.mean(right))
    fall = -float(np.mean(left) + np.mean(right)) / 2
    moved = FALL_GAIN * fall - IDLE_BIAS
    scores = np.array([SIDE_GAIN * side + moved, -SIDE_GAIN * side + moved, 0.0])
    scores = np.clip(scores, -3.0, 3.0)
    return np.asarray(scores - np.logaddexp.reduce(scores))
