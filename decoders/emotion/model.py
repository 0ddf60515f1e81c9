"""An emotion model: leads, the training people's units, and a linear classifier."""

from dataclasses import dataclass

import numpy as np

from decoders.dsp.filters import Array
from decoders.dsp.leads import plain_name
from decoders.emotion.features import AffectFeatures
from decoders.model import Model
from tracks.emotion import CLASSES

OTHER_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}
"""The first batch's names (seed 002, 2.1): the same places on the head."""
STAY = 1 - 1 / 60
"""A clip lasts about a minute: how likely the next second is of the same class."""
TEMPERATURE = 0.5
"""A second's scores repeat much of the last one's: at face value the belief would be too sure."""


@dataclass(frozen=True)
class EmotionModel:
    """weights (classes, features), bias (classes,) on standard units; mean, sd: of those units."""

    leads: tuple[str, ...]
    mean: Array
    sd: Array
    weights: Array
    bias: Array

    def scores(self, units: Array) -> Array:
        """(..., classes): log odds up to a constant."""
        return np.asarray(TEMPERATURE * (units @ self.weights.T + self.bias))

    def carry(self, belief: Array, scores: Array) -> Array:
        """The belief one second later, after this second's scores."""
        leave = (1 - STAY) / (len(belief) - 1)
        expected = STAY * belief + leave * (1 - belief)
        updated = expected * np.exp(scores - scores.max())
        return np.asarray(updated / updated.sum())


def standard_name(name: str) -> str:
    """The second batch's name of a lead."""
    plain = plain_name(name)
    return OTHER_NAMES.get(plain, plain)


def pack(model: EmotionModel) -> Model:
    arrays = {"mean": model.mean, "sd": model.sd, "weights": model.weights, "bias": model.bias}
    settings = {"leads": list(model.leads)}
    return Model("emotion", "emotion-de", arrays, settings)


def unpack(model: Model) -> EmotionModel:
    """Read a model file's content, or say what is wrong with it."""
    leads = model.names("leads")
    if not leads:
        raise model.broken("it names no lead")
    size = AffectFeatures(250.0, len(leads)).size
    return EmotionModel(
        leads,
        model.array("mean", (size,)),
        model.array("sd", (size,)),
        model.array("weights", (len(CLASSES), size)),
        model.array("bias", (len(CLASSES),)),
    )
