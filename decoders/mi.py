"""The mi decoder: bands, covariances, tangent space, re-centred on the session without labels."""

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.band_moments import BandMoments
from decoders.lead_groups import plain_name
from decoders.mi_model import BANDS_HZ, MiModel, MiModels, RunningReference, class_scores
from decoders.mi_trials import ImageryTrials
from decoders.mi_untrained import MiGuess
from decoders.mi_windows import Windows
from decoders.model import Model

UNTRAINED = (
    "no model was given: a fallback guesses by where the rhythm falls, without knowing this person. "
    "Train one with `bci-decode train --track mi RECORDING... --out FILE`, then give --model FILE"
)


class MiDecoder:
    """Filter bank and Riemannian tangent space; without a model it compares hemispheres instead."""

    def __init__(self, model: Model | None = None, seed: int = 0) -> None:
        del seed  # nothing here is random
        self._models = None if model is None else MiModels.of(model)
        self.notice = UNTRAINED if model is None else ""
        self._subject = ""
        self._reference: RunningReference | None = None

    def start(self, info: SignalInfo) -> None:
        judge = MiGuess(info) if self._models is None else self._trained(self._models, info)
        self._trials = ImageryTrials(Windows.of(info), judge)

    def step(self, packet: Packet) -> list[int]:
        """Classes 1, 2, 3."""
        return self._trials.step(packet)

    def _trained(self, models: MiModels, info: SignalInfo) -> "_Trained":
        """One more session of the same subject goes on from where its mean stood."""
        known = models.model_of(info.subject)
        if self._reference is None or info.subject != self._subject:
            self._reference = RunningReference(known)
        self._subject = info.subject
        return _Trained(known, info, self._reference)


class _Trained:
    """Decides by a model."""

    def __init__(self, model: MiModel, info: SignalInfo, reference: RunningReference) -> None:
        self._model = model
        have = {plain_name(name): place for place, name in enumerate(info.lead_names)}
        self._missing = np.array([name not in have for name in self._model.leads])
        places = [have.get(name, 0) for name in self._model.leads]
        self._moments = BandMoments(info.rate, places, BANDS_HZ)
        self._reference = reference

    def begin(self) -> None:
        self._moments.begin()

    def add(self, x: NDArray[np.floating]) -> None:
        self._moments.add(x)

    def look(self) -> None:
        self._moments.forget()

    def decide(self, number: int, last: bool) -> int:
        del number  # one classifier knows windows of any length
        covariances = self._reference.covariances(self._moments, self._missing)
        scores = class_scores(self._model, self._reference.features(covariances))
        if last:
            self._reference.learn(covariances)
        return int(scores.argmax()) + 1
