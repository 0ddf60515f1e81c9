"""Imagery evidence: does the sensorimotor rhythm imagine a left hand, a right one, or idle?

Band covariances of a trial so far are seen as a change from the person's own idle state, which
runs along between the trials (so nothing of a session must be known beforehand); a linear
classifier, trained on imagery recordings, gives calibrated probabilities. Without a model, the
side on which the rhythm falls decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead
from decoders.dsp.covariance import mend, shrink
from decoders.dsp.demodulator import Array
from decoders.dsp.filters import FilterBank, bandpass
from decoders.dsp.leads import leads_over, plain_name

HAND_AREAS = re.compile(r"(?:FC|CP)[34]|C(?:Z|[1-6])")
"""Leads over both hands' areas: with more, a few hundred trials no longer tell what is chance."""
BANDS_HZ = ((8.0, 12.0), (12.0, 18.0), (18.0, 26.0))
BEGIN_S = 0.4
"""Imagery sets in after the cue: what comes earlier says little."""
TIMES_S = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
"""When the evidence is renewed, after the trial's trigger."""
IDLE_WINDOW_S = 2.0
IDLE_MEMORY = 30
SETTLE_S = 1.0
"""After a trial the rhythm rebounds: it is not idle yet."""
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
    """The mean logarithm of the idle windows so far; the last IDLE_MEMORY count most."""

    def __init__(self) -> None:
        self.windows = 0
        self.log: Array = np.zeros(0)

    def update(self, covariance: Array) -> None:
        """One more window's covariances (bands, leads, leads)."""
        log = log_covariance(covariance)
        self.windows += 1
        weight = min(self.windows, IDLE_MEMORY)
        self.log = log if self.windows == 1 else self.log + (log - self.log) / weight


class ImageryEvidence:
    """Fed the raw leads of a session, told where trials begin and end."""

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
        """Take in the next raw samples (n, leads)."""
        picked = raw[:, self._chosen] * self._present
        bands = self._bank.step(picked)
        while bands.shape[1]:
            n = min(bands.shape[1], self._until - self._count)
            self._add(bands[:, :n])
            bands = bands[:, n:]

    def begin(self) -> None:
        """The next sample is a trial's first."""
        self._reset_window(idle=False)
        self.log_probabilities = self._know_nothing()

    def end(self) -> None:
        """The next sample belongs to no trial."""
        self._reset_window(idle=True)

    def features(self) -> Array | None:
        """The trial so far, as a change from idling: (features,); None while idling is unknown."""
        if not self._idling.windows or self._weight == 0:
            return None
        return change(self._idling.log, self._covariance())

    def _choose(self, leads: Sequence[Lead]) -> list[int]:
        """The model's leads where there is one; a lead that is missing here counts as flat."""
        if self._classifier is None:
            chosen = leads_over(HAND_AREAS, leads)
            self._present = np.ones(len(chosen))
            return chosen
        wanted = self._classifier.leads
        self._present = np.array([float(name in self._names) for name in wanted])
        return [self._names.index(name) if name in self._names else 0 for name in wanted]

    def _reset_window(self, idle: bool) -> None:
        n = len(self._chosen)
        self._sum = np.zeros((len(BANDS_HZ), n, n))
        self._weight = 0
        self._count = 0
        self._idle = idle
        begin, first = (SETTLE_S, SETTLE_S + IDLE_WINDOW_S) if idle else (BEGIN_S, TIMES_S[0])
        self._from = round(begin * self._rate)
        self._until = round(first * self._rate)
        self.log_probabilities = self._know_nothing()

    def _add(self, bands: Array) -> None:
        useful = bands[:, max(0, self._from - self._count) :]
        self._sum += np.swapaxes(useful, 1, 2) @ useful
        self._weight += useful.shape[1]
        self._count += bands.shape[1]
        if self._count == self._until:
            self._reached()

    def _reached(self) -> None:
        if self._idle:
            self._idling.update(self._covariance())
            self._sum[:] = 0
            self._weight = 0
            self._until += round(IDLE_WINDOW_S * self._rate)
            return
        time = self._times.index(self._until)
        self.log_probabilities = self._judge(time)
        last = time + 1 == len(self._times)
        self._until = np.iinfo(np.int64).max if last else self._times[time + 1]

    def _judge(self, time: int) -> Array:
        features = self.features()
        if features is None:
            return self._know_nothing()
        if self._classifier is not None:
            return self._classifier.log_probabilities(time, features)
        names = [self._names[i] for i in self._chosen]
        return _by_side(names, features.reshape(len(BANDS_HZ), -1))

    def _covariance(self) -> Array:
        return _sound(self._sum / max(self._weight, 1))

    @staticmethod
    def _know_nothing() -> Array:
        return np.full(len(CLASSES), -np.log(len(CLASSES)))


def band_filters(rate: float, n_leads: int) -> FilterBank:
    """The filters of BANDS_HZ."""
    return FilterBank([bandpass(*band, rate, order=3) for band in BANDS_HZ], n_leads)


def sound_covariance(bands: Array) -> Array:
    """(bands, samples, leads) -> (bands, leads, leads), invertible."""
    return _sound(np.swapaxes(bands, 1, 2) @ bands / max(bands.shape[1], 1))


def log_covariance(covariance: Array) -> Array:
    """The matrix logarithm of each."""
    power, axes = np.linalg.eigh(covariance)
    return np.asarray((axes * np.log(power)[..., None, :]) @ np.swapaxes(axes, -1, -2))


def change(reference_log: Array, covariance: Array) -> Array:
    """Tangent vectors of each band at the idle state: (bands * leads * (leads + 1) / 2,)."""
    rows, columns = np.triu_indices(covariance.shape[-1])
    scale = np.where(rows == columns, 1.0, np.sqrt(2.0))
    power, axes = np.linalg.eigh(reference_log)
    white = (axes * np.exp(-power / 2)[..., None, :]) @ np.swapaxes(axes, -1, -2)
    return np.asarray(
        (log_covariance(white @ covariance @ white)[:, rows, columns] * scale).ravel()
    )


def _sound(mean: Array) -> Array:
    return np.array([shrink(mend(cov), SHRINKAGE) for cov in mean])


SIDE_GAIN, FALL_GAIN, IDLE_BIAS = 1.5, 1.0, 0.3
"""Cautious: without training on the person, imagery against idling stays a weak hint."""


def _by_side(names: list[str], features: Array) -> Array:
    """Log probabilities of CLASSES: imagery of a hand makes the rhythm fall on the other side."""
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
