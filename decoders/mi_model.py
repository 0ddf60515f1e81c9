"""A motor imagery model: for each band a reference covariance, and weights in its tangent space."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.covariance import Array, live_leads, sound
from decoders.model import Model
from decoders.spd import completed, geodesic, tangent

NAME = "mi-riemann"
BANDS_HZ = ((8.0, 13.0), (13.0, 30.0), (8.0, 30.0))
"""Mu, beta and both: each band votes, which with few trials beats one classifier over all."""
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

    @classmethod
    def of(cls, model: Model, subject: str) -> "MiModel":
        """The model's part for this subject, or the one for anybody where it knows no such."""
        model.wanted_by("mi", NAME)
        subjects: Any = model.settings.get("subjects", [])
        part = subjects.index(subject) + 1 if subject in subjects else 0
        return cls(
            leads=tuple(str(name) for name in model.arrays["leads"]),
            references=model.array("references")[part],
            weights=model.array("weights")[part],
            bias=model.array("bias")[part],
        )


def pack(parts: Sequence[MiModel], subjects: Sequence[str]) -> Model:
    """A model file of the part for anyone, then one part a subject."""
    arrays: dict[str, NDArray[Any]] = {
        "leads": np.array(parts[0].leads),
        "references": np.stack([part.references for part in parts]),
        "weights": np.stack([part.weights for part in parts]),
        "bias": np.stack([part.bias for part in parts]),
    }
    return Model("mi", NAME, arrays, {"subjects": list(subjects), "bands_hz": BANDS_HZ})


class RunningReference:
    """The mean of a session's covariances, without labels: it starts from the training's."""

    def __init__(self, references: Array) -> None:
        self._references = references.copy()
        self._trials = float(PRIOR_TRIALS)

    def covariances(self, sums: Array, count: int, missing: NDArray[np.bool_]) -> Array:
        """Moments (bands, n, n) of `count` samples as sound covariances, dead leads filled in."""
        found = []
        for moment, reference in zip(sums / max(count, 1), self._references, strict=True):
            live = live_leads(moment) & ~missing
            found.append(completed(sound(moment, count), live, reference))
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
    """Mean over the bands of the classes' log-probabilities."""
    scores = np.einsum("bcf,bf->bc", model.weights, features) + model.bias
    scores = scores - scores.max(axis=1, keepdims=True)
    logs: Array = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    mean: Array = logs.mean(axis=0)
    return mean
