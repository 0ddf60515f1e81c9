"""A motor imagery model: for each band a reference covariance, and weights in its tangent space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.band_moments import BandMoments
from decoders.covariance import Array, live_leads, sound
from decoders.model import Model
from decoders.spd import completed, geodesic, positive_definite, tangent
from tracks.mi import CLASSES

NAME = "mi-riemann"
BANDS_HZ = ((8.0, 13.0), (13.0, 30.0), (8.0, 30.0))
"""Mu, beta and both."""
PRIOR_TRIALS = 10
"""How many trials the training's reference stands for in the running one."""
MEMORY_TRIALS = 60


@dataclass(frozen=True)
class MiModel:
    """references (bands, n, n), weights (bands, classes, features), bias (bands, classes)."""

    leads: tuple[str, ...]
    references: Array
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
        weights = model.array("weights", (parts, bands, classes, n * (n + 1) // 2))
        bias = model.array("bias", (parts, bands, classes))
        if not all(positive_definite(reference) for part in references for reference in part):
            raise model.broken("a reference is no covariance")
        found = [MiModel(leads, *arrays) for arrays in zip(references, weights, bias, strict=True)]
        return cls(found[0], dict(zip(subjects, found[1:], strict=True)))

    def model_of(self, subject: str) -> MiModel:
        """The subject's own, or the one for anybody where there is none."""
        return self.subjects.get(subject, self.anybody)


def pack(parts: Sequence[MiModel], subjects: Sequence[str]) -> Model:
    """A model file of the part for anyone, then one part a subject."""
    arrays: dict[str, NDArray[Any]] = {
        "references": np.stack([part.references for part in parts]),
        "weights": np.stack([part.weights for part in parts]),
        "bias": np.stack([part.bias for part in parts]),
    }
    settings = {"subjects": list(subjects), "leads": list(parts[0].leads), "bands_hz": BANDS_HZ}
    return Model("mi", NAME, arrays, settings)


class RunningReference:
    """The mean of a session's covariances, without labels: it starts from the training's."""

    def __init__(self, references: Array) -> None:
        self._references = references.copy()
        self._trials = float(PRIOR_TRIALS)

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
        share = 1 / (self._trials + 1)
        pairs = zip(self._references, covariances, strict=True)
        return np.array([tangent(c, geodesic(r, c, share)) for r, c in pairs])

    def learn(self, covariances: Array) -> None:
        """A trial is over: its covariances move the reference."""
        self._trials = min(self._trials + 1, MEMORY_TRIALS)
        pairs = zip(self._references, covariances, strict=True)
        self._references = np.array([geodesic(r, c, 1 / self._trials) for r, c in pairs])


def class_scores(model: MiModel, features: Array) -> Array:
    """The classes' log-probabilities, of all bands together."""
    scores: Array = np.einsum("bcf,bf->c", model.weights, features) + model.bias.sum(axis=0)
    shifted = scores - scores.max()
    logs: Array = shifted - np.log(np.exp(shifted).sum())
    return logs
