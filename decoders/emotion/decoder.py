"""The emotion decoder and its model: one of nine classes per second, for people without training data.

The features of each second (`decoders.emotion.features`) are standardised by the person's past
seconds, classified by a linear classifier trained across people, and smoothed by a forward filter
over the seconds, since a film keeps its mood for longer.
"""

from dataclasses import dataclass

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp import Array
from decoders.dsp.buffers import RunningScale
from decoders.dsp.leads import find_leads, plain_name
from decoders.emotion.features import AffectFeatures, SecondCounter
from decoders.model import Model
from tracks.emotion import CLASSES

NEUTRAL = 4
PRIOR_SECONDS = 10.0
"""Weight of the training people's mean and spread, in seconds of the person's own data."""
LIMIT_SD = 4.0
OTHER_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}
"""Names of the first batch (seed 002, 2.1) for the same positions."""
STAY = 1 - 1 / 60
"""Probability that the next second has the same class: a clip lasts about a minute."""
TEMPERATURE = 0.5
"""Scales the scores: those of successive seconds are correlated."""


UNTRAINED = (
    "no model was given: every second is reported as neutral. Train one with `bci-decode train "
    "--track emotion RECORDING... --out FILE`, then give --model FILE"
)


@dataclass(frozen=True)
class EmotionModel:
    """Mean and spread of the training people, and a linear classifier.

    weights (classes, features), bias (classes,) for features standardised by mean and sd.
    """

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


class EmotionDecoder:
    """Needs a model; without one it reports neutral for every second."""

    def __init__(self, *, model: Model | None = None, seed: int = 0) -> None:
        del seed  # deterministic
        self._model: EmotionModel | None = None if model is None else unpack(model)
        self.notice = UNTRAINED if model is None else ""

    def start(self, info: SignalInfo) -> None:
        self._seconds = SecondCounter(info.packet_samples)
        if self._model is None:
            return
        names = [standard_name(name) for name in info.lead_names]
        self._leads, self._present = find_leads(self._model.leads, names)
        self._features = AffectFeatures(info.rate, len(self._leads))
        self._scale = RunningScale(self._model.mean, self._model.sd, PRIOR_SECONDS)
        self._posterior = self._uniform()

    def step(self, packet: Packet) -> list[int]:
        reports: list[int] = []
        for span in self._seconds.spans(packet):
            if self._model is None:
                reports += [NEUTRAL] * span.completes
                continue
            if span.first:
                self._features.reset()
                self._posterior = self._uniform()
            picked = packet.signal[span.begin : span.end][:, self._leads]
            self._features.push(picked * self._present)
            if span.completes:
                reports.append(self._decide(self._model))
        return reports

    def _decide(self, model: EmotionModel) -> int:
        features = self._features.take()
        self._scale.update(features)
        units = np.clip(self._scale.standard(features), -LIMIT_SD, LIMIT_SD)
        self._posterior = model.update(self._posterior, model.scores(units))
        return int(np.argmax(self._posterior))

    @staticmethod
    def _uniform() -> Array:
        return np.full(len(CLASSES), 1 / len(CLASSES))
