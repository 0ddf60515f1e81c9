"""A motor imagery model: for each band a reference covariance, and weights in its tangent space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.dsp.covariance import Array, BandMoments, live_leads, sound
from decoders.dsp.spd import completed, geodesic, positive_definite, tangent
from decoders.model import Model
from tracks.mi import CLASSES

NAME = "mi-riemann"
BANDS_HZ = ((8.0, 13.0), (13.0, 30.0), (8.0, 30.0))
"""Mu, beta and both."""
MEMORY_TRIALS = 60


@dataclass(frozen=True)
class MiModel:
    """references (bands, n, n), weights (bands, classes, features), bias (bands, classes).

    prior_trials (bands,): how many of a session's trials its reference is worth.
    """

    leads: tuple[str, ...]
    references: Array
    prior_trials: Array
    weights: Array
    bias: Array


@dataclass(frozen=True)
class MiModels:
    """anybody's model, and that of each subject it was trained on."""

    anybody: MiModel
    subjects: Mapping[str, MiModel]

    @classmethod
    def of(cls, model: Model) -> "MiModels":
        """Read a model file's content, or say what is wrong with it."""
        model.wanted_by("mi", NAME)
        subjects, leads = model.names("subjects"), model.names("leads")
        if not leads:
            raise model.broken("it names no lead")
        n = len(leads)
        parts, bands, classes = len(subjects) + 1, len(BANDS_HZ), len(CLASSES)
        references = model.array("references", (parts, bands, n, n))
        priors = model.array("prior_trials", (parts, bands))
        weights = model.array("weights", (parts, bands, classes, n * (n + 1) // 2))
        bias = model.array("bias", (parts, bands, classes))
        if not all(positive_definite(reference) for part in references for reference in part):
            raise model.broken("a reference is no covariance")
        if not (priors > 0).all():
            raise model.broken("a reference is worth no trial")
        arrays = zip(references, priors, weights, bias, strict=True)
        found = [MiModel(leads, *each) for each in arrays]
        return cls(found[0], dict(zip(subjects, found[1:], strict=True)))

    def model_of(self, subject: str) -> MiModel:
        """The subject's own, or the one for anybody where there is none."""
        return self.subjects.get(subject, self.anybody)


def pack(parts: Sequence[MiModel], subjects: Sequence[str]) -> Model:
    """A model file of the part for anyone, then one part a subject."""
    arrays: dict[str, NDArray[Any]] = {
        "references": np.stack([part.references for part in parts]),
        "prior_trials": np.stack([part.prior_trials for part in parts]),
        "weights": np.stack([part.weights for part in parts]),
        "bias": np.stack([part.bias for part in parts]),
    }
    settings = {"subjects": list(subjects), "leads": list(parts[0].leads), "bands_hz": BANDS_HZ}
    return Model("mi", NAME, arrays, settings)


class RunningReference:
    """The mean of a session's covariances, without labels: it starts from the training's."""

    def __init__(self, model: MiModel) -> None:
        self._references = model.references.copy()
        self._trials = model.prior_trials.copy()
        self._memory = np.maximum(self._trials, MEMORY_TRIALS)

    def covariances(self, moments: BandMoments, missing: NDArray[np.bool_]) -> Array:
        """(bands, n, n): moments as sound covariances, dead leads filled in."""
        found = []
        counts = moments.count * moments.freedom
        means = moments.sums / max(moments.count, 1)
        for mean, count, reference in zip(means, counts, self._references, strict=True):
            live = live_leads(mean) & ~missing
            found.append(completed(sound(mean, float(count)), live, reference))
        return np.array(found)

    def features(self, covariances: Array) -> Array:
        """(bands, features): the covariances as seen from the reference, this trial included."""
        return np.array(
            [
                tangent(c, seen)
                for c, seen in zip(covariances, self._moved(covariances), strict=True)
            ]
        )

    def learn(self, covariances: Array) -> None:
        """A trial is over: its covariances move the reference."""
        self._references = self._moved(covariances)
        self._trials = np.minimum(self._trials + 1, self._memory)

    def _moved(self, covariances: Array) -> Array:
        """The references with one trial more."""
        each = zip(self._references, covariances, 1 / (self._trials + 1), strict=True)
        return np.array([geodesic(r, c, share) for r, c, share in each])


def class_scores(model: MiModel, features: Array) -> Array:
    """The classes' log-probabilities, of all bands together."""
    scores: Array = np.einsum("bcf,bf->c", model.weights, features) + model.bias.sum(axis=0)
    shifted = scores - scores.max()
    logs: Array = shifted - np.log(np.exp(shifted).sum())
    return logs
