"""The mi decoder: bands, covariances, tangent space, re-centred on the session without labels."""

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp.covariance import Array, BandMoments
from decoders.dsp.leads import brain_leads, plain_name
from decoders.mi.model import BANDS_HZ, MiModel, MiModels, RunningReference, class_scores
from decoders.mi.trials import ImageryTrials, Windows
from decoders.model import Model

BAND_HZ = ((8.0, 30.0),)
PLACES = (
    ("C4", "C2", "C6", "FC4", "CP4"),
    ("C3", "C1", "C5", "FC3", "CP3"),
    ("CZ", "C1", "C2", "FCZ", "CPZ"),
)
"""Where classes 1, 2, 3 lower the power: a lead, and neighbours that stand in for it."""
MEMORY_TRIALS = 30


class MiGuess:
    """Decides by where the power is lowest beside its running mean."""

    def __init__(self, info: SignalInfo) -> None:
        have = {plain_name(info.leads[place].name): place for place in brain_leads(info.leads)}
        self._over = [[have[name] for name in names if name in have] for names in PLACES]
        places = sorted({place for group in self._over for place in group})
        self._moments = BandMoments(info.rate, places, BAND_HZ)
        self._over = [[places.index(place) for place in group] for group in self._over]
        self._usual: Array | None = None
        self._trials = 0

    def begin(self) -> None:
        self._moments.begin()

    def add(self, x: NDArray[np.floating]) -> None:
        self._moments.add(x)

    def look(self) -> None:
        self._moments.forget()

    def decide(self, number: int, last: bool) -> int:
        del number  # a longer window only makes it surer
        power = np.diagonal(self._moments.sums[0]) / max(self._moments.count, 1)
        log_power = np.array([self._log_power(power, group) for group in self._over])
        log_power = log_power - log_power.mean()  # how loud the trial is as a whole says nothing
        change = log_power if self._usual is None else log_power - self._usual
        if last:
            self._learn(log_power)
        return int(change.argmin()) + 1

    def _learn(self, log_power: Array) -> None:
        self._trials = min(self._trials + 1, MEMORY_TRIALS)
        usual = np.zeros(len(log_power)) if self._usual is None else self._usual
        self._usual = usual + (log_power - usual) / self._trials

    @staticmethod
    def _log_power(power: Array, group: list[int]) -> float:
        live = [power[place] for place in group if power[place] > 0]
        return float(np.log(live[0])) if live else 0.0


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
