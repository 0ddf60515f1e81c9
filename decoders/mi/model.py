"""The mi model: per band a reference covariance, and weights in its tangent space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array
from decoders.dsp.covariance import BandMoments, live_leads, sound
from decoders.dsp.spd import (
    bounded,
    completed,
    geodesic,
    inverse_root,
    logarithm,
    positive_definite,
    upper_triangle,
)
from decoders.model import Model
from tracks.mi import CLASSES

NAME = "mi-riemann"
BANDS_HZ = ((8.0, 13.0), (13.0, 30.0), (8.0, 30.0))
"""Mu, beta and both."""
MEMORY_TRIALS = 60


@dataclass(frozen=True)
class MiModel:
    """references (bands, n, n), weights (bands, classes, features), bias (bands, classes).

    prior_trials (bands,): how many trials of a session the reference weighs. bounds (bands,): the
    largest norm of a tangent vector; larger ones are scaled down.
    """

    leads: tuple[str, ...]
    references: Array
    prior_trials: Array
    bounds: Array
    weights: Array
    bias: Array


@dataclass(frozen=True)
class MiModels:
    """The general model, and one for each subject of the training. classes: what rows stand for."""

    general: MiModel
    subjects: Mapping[str, MiModel]
    classes: tuple[int, ...]

    @classmethod
    def of(cls, model: Model) -> "MiModels":
        """Read a model file's content. Raises ModelError."""
        model.wanted_by("mi", NAME)
        subjects, leads = model.names("subjects"), model.names("leads")
        if not leads:
            raise model.broken("it has no leads")
        n = len(leads)
        older = "classes" not in model.settings and "bounds" not in model.arrays
        classes = tuple(CLASSES) if older else _classes(model)
        parts, bands = len(subjects) + 1, len(BANDS_HZ)
        references = model.array("references", (parts, bands, n, n))
        priors = model.array("prior_trials", (parts, bands))
        unbounded = np.full((parts, bands), np.inf)
        bounds = unbounded if older else model.array("bounds", (parts, bands))
        weights = model.array("weights", (parts, bands, len(classes), n * (n + 1) // 2))
        bias = model.array("bias", (parts, bands, len(classes)))
        if not all(positive_definite(reference) for part in references for reference in part):
            raise model.broken("a reference is not positive definite")
        if not ((priors > 0).all() and (bounds > 0).all()):
            raise model.broken("prior_trials and bounds must be above 0")
        arrays = zip(references, priors, bounds, weights, bias, strict=True)
        found = [MiModel(leads, *each) for each in arrays]
        return cls(found[0], dict(zip(subjects, found[1:], strict=True)), classes)

    def model_of(self, subject: str) -> MiModel:
        """The subject's own model, or the general one."""
        return self.subjects.get(subject, self.general)


def _classes(model: Model) -> tuple[int, ...]:
    numbers = {name: number for number, name in CLASSES.items()}
    names = model.names("classes")
    if len(names) < 2 or not set(names) <= set(numbers):
        raise model.broken(f"its classes are {', '.join(names)}, not of {', '.join(numbers)}")
    return tuple(numbers[name] for name in names)


def pack(parts: Sequence[MiModel], subjects: Sequence[str], classes: Sequence[int]) -> Model:
    """A model file of the general part and one part per subject."""
    arrays: dict[str, NDArray[Any]] = {
        name: np.stack([getattr(part, name) for part in parts])
        for name in ("references", "prior_trials", "bounds", "weights", "bias")
    }
    settings = {
        "subjects": list(subjects),
        "leads": list(parts[0].leads),
        "classes": [CLASSES[number] for number in classes],
        "bands_hz": BANDS_HZ,
    }
    return Model("mi", NAME, arrays, settings)


class RunningReference:
    """The running Riemannian mean of a session's covariances, from the training's on; no labels."""

    def __init__(self, references: Array, prior_trials: Array) -> None:
        self._references = references.copy()
        self._trials = prior_trials.copy()
        self._memory = np.maximum(self._trials, MEMORY_TRIALS)

    def covariances(self, moments: BandMoments, missing: NDArray[np.bool_]) -> Array:
        """(bands, n, n): sound covariances of the moments, dead leads filled in."""
        found = []
        counts = moments.count * moments.freedom
        means = moments.sums / max(moments.count, 1)
        for mean, count, reference in zip(means, counts, self._references, strict=True):
            live = live_leads(mean) & ~missing
            found.append(completed(sound(mean, float(count)), live, reference))
        return np.array(found)

    def features(self, covariances: Array) -> Array:
        """(bands, features): tangent vectors at the reference that includes this trial."""
        return upper_triangle(logarithm(self.centred(covariances)))

    def centred(self, covariances: Array) -> Array:
        """(bands, n, n): as seen from the reference that includes this trial; the identity is it."""
        inner = inverse_root(self._moved(covariances))
        return np.asarray(inner @ covariances @ inner)

    def learn(self, covariances: Array) -> None:
        """Update the reference with a finished trial."""
        self._references = self._moved(covariances)
        self._trials = np.minimum(self._trials + 1, self._memory)

    def _moved(self, covariances: Array) -> Array:
        """The references after one more trial."""
        each = zip(self._references, covariances, 1 / (self._trials + 1), strict=True)
        return np.array([geodesic(r, c, share) for r, c, share in each])


def class_scores(model: MiModel, features: Array) -> Array:
    """Log-probabilities of the classes, from all bands; artefacts are bounded."""
    held = bounded(features, model.bounds[:, None])
    scores: Array = np.einsum("bcf,bf->c", model.weights, held) + model.bias.sum(axis=0)
    shifted = scores - scores.max()
    logs: Array = shifted - np.log(np.exp(shifted).sum())
    return logs
