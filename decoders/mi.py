"""The mi decoder: bands, covariances, tangent space, re-centred on the session without labels."""

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.band_moments import BandMoments
from decoders.lead_groups import plain_name
from decoders.mi_model import BANDS_HZ, MiModel, RunningReference, class_scores
from decoders.mi_trials import ImageryTrials
from decoders.mi_untrained import MiGuess
from decoders.mi_windows import Windows
from decoders.model import Model


class MiDecoder:
    """Filter bank and Riemannian tangent space; without a model it compares hemispheres instead."""

    def __init__(self, model: Model | None = None, seed: int = 0) -> None:
        del seed  # nothing here is random
        self._model = model

    def start(self, info: SignalInfo) -> None:
        judge = MiGuess(info) if self._model is None else _Trained(self._model, info)
        self._trials = ImageryTrials(Windows.of(info), judge)

    def step(self, packet: Packet) -> list[int]:
        """Classes 1, 2, 3."""
        return self._trials.step(packet)


class _Trained:
    """Decides by a model."""

    def __init__(self, model: Model, info: SignalInfo) -> None:
        self._model = MiModel.of(model, info.subject)
        have = {plain_name(name): place for place, name in enumerate(info.lead_names)}
        self._missing = np.array([name not in have for name in self._model.leads])
        places = [have.get(name, 0) for name in self._model.leads]
        self._moments = BandMoments(info.rate, places, BANDS_HZ)
        self._reference = RunningReference(self._model.references)

    def begin(self) -> None:
        self._moments.begin()

    def add(self, x: NDArray[np.floating]) -> None:
        self._moments.add(x)

    def look(self) -> None:
        self._moments.forget()

    def decide(self, number: int, last: bool) -> int:
        del number  # one classifier knows windows of any length
        covariances = self._reference.covariances(
            self._moments.sums, self._moments.count, self._missing
        )
        scores = class_scores(self._model, self._reference.features(covariances))
        if last:
            self._reference.learn(covariances)
        return int(scores.argmax()) + 1
