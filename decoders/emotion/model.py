"""The emotion model: leads, mean and spread of the training people, and a linear classifier."""

from dataclasses import dataclass

import numpy as np

from decoders.dsp import Array
from decoders.dsp.leads import plain_name
from decoders.emotion.features import AffectFeatures
from decoders.model import Model
from tracks.emotion import CLASSES

OTHER_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}
"""Names of the first batch (seed 002, 2.1) for the same positions."""
STAY = 1 - 1 / 60
"""Probability that the next second has the same class: a clip lasts about a minute."""
TEMPERATURE = 0.5
"""Scales the scores: those of successive seconds are correlated."""


@dataclass(frozen=True)
class EmotionModel:
    """weights (classes, features), bias (classes,) for features standardised by mean and sd."""

    leads: tuple[str, ...]
    mean: Array
    sd: Array
    weights: Array
    bias: Array

    def scores(self, units: Array) -> Array:
        """(..., classes): log odds up to a constant."""
        return np.asarray(TEMPERATURE * (units @ self.weights.T + self.bias))

    def update(self, posterior: Array, scores: Array) -> Array:
        """The posterior of the classes one second later, given that second's scores."""
        leave = (1 - STAY) / (len(posterior) - 1)
        expected = STAY * posterior + leave * (1 - posterior)
        updated = expected * np.exp(scores - scores.max())
        return np.asarray(updated / updated.sum())


def standard_name(name: str) -> str:
    """The name of a lead in the second batch."""
    plain = plain_name(name)
    return OTHER_NAMES.get(plain, plain)


def pack(model: EmotionModel) -> Model:
    arrays = {"mean": model.mean, "sd": model.sd, "weights": model.weights, "bias": model.bias}
    settings = {"leads": list(model.leads)}
    return Model("emotion", "emotion-de", arrays, settings)


def unpack(model: Model) -> EmotionModel:
    """Read a model file's content. Raises ModelError."""
    leads = model.names("leads")
    if not leads:
        raise model.broken("it has no leads")
    size = AffectFeatures(250.0, len(leads)).size
    return EmotionModel(
        leads,
        model.array("mean", (size,)),
        model.array("sd", (size,)),
        model.array("weights", (len(CLASSES), size)),
        model.array("bias", (len(CLASSES),)),
    )
