"""The mi decoder: filter bank, covariances, tangent space, re-centred on the session without labels."""

from collections.abc import Callable

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp import Array
from decoders.dsp.covariance import BandMoments
from decoders.dsp.leads import brain_leads, find_leads, plain_name
from decoders.mi.model import BANDS_HZ, MiModels, RunningReference, class_scores
from decoders.mi.trials import Classify, ImageryTrials, Windows
from decoders.model import Model

BAND_HZ = ((8.0, 30.0),)
AREAS = (
    ("C4", "C2", "C6", "FC4", "CP4"),
    ("C3", "C1", "C5", "FC3", "CP3"),
    ("CZ", "C1", "C2", "FCZ", "CPZ"),
)
"""Where classes 1, 2, 3 lower the power: a lead, then neighbours used if it is missing."""
MEMORY_TRIALS = 30
UNTRAINED = (
    "no model was given: a fallback guesses by where the rhythm falls, without knowing this person. "
    "Train one with `bci-decode train --track mi RECORDING... --out FILE`, then give --model FILE"
)


class MiDecoder:
    """Filter bank and Riemannian tangent space; without a model it compares band powers instead."""

    def __init__(
        self,
        model: Model | None = None,
        seed: int = 0,
        watch: Callable[[int, Array], None] | None = None,
    ) -> None:
        """watch: called with each report's number in its trial, from 0, and the classes'
        log-probabilities."""
        del seed  # deterministic
        self._watch = watch
        self._models = None if model is None else MiModels.of(model)
        self.notice = UNTRAINED if model is None else ""
        self._subject = ""
        self._reference: RunningReference | None = None

    def start(self, info: SignalInfo) -> None:
        if self._models is None:
            guess = BandPowerGuess(info)
            self._trials = ImageryTrials(Windows.of(info), guess.moments, guess.classify)
        else:
            self._trials = ImageryTrials(Windows.of(info), *self._trained(self._models, info))

    def step(self, packet: Packet) -> list[int]:
        """Classes 1, 2, 3."""
        return self._trials.step(packet)

    def _trained(self, models: MiModels, info: SignalInfo) -> tuple[BandMoments, Classify]:
        """The classifier of a model; another session of the same subject keeps its reference."""
        model = models.model_of(info.subject)
        if self._reference is None or info.subject != self._subject:
            self._reference = RunningReference(model.references, model.prior_trials)
        self._subject = info.subject
        reference = self._reference
        places, present = find_leads(model.leads, [plain_name(name) for name in info.lead_names])
        moments = BandMoments(info.rate, places, BANDS_HZ)

        def classify(number: int, last: bool) -> int:
            covariances = reference.covariances(moments, ~present)
            scores = class_scores(model, reference.features(covariances))
            if last:
                reference.learn(covariances)
            if self._watch is not None:
                self._watch(number, scores)
            return models.classes[int(scores.argmax())]

        return moments, classify


class BandPowerGuess:
    """Chooses the class over whose area the power is lowest relative to its running mean."""

    def __init__(self, info: SignalInfo) -> None:
        have = {plain_name(info.leads[place].name): place for place in brain_leads(info.leads)}
        areas = [[have[name] for name in names if name in have] for names in AREAS]
        places = sorted({place for area in areas for place in area})
        self.moments = BandMoments(info.rate, places, BAND_HZ)
        self._areas = [[places.index(place) for place in area] for area in areas]
        self._mean: Array | None = None
        self._trials = 0

    def classify(self, number: int, last: bool) -> int:
        del number  # any window length
        power = np.diagonal(self.moments.sums[0]) / max(self.moments.count, 1)
        log_power = np.array([self._log_power(power, area) for area in self._areas])
        log_power = log_power - log_power.mean()  # the overall level carries no information
        change = log_power if self._mean is None else log_power - self._mean
        if last:
            self._learn(log_power)
        return int(change.argmin()) + 1

    def _learn(self, log_power: Array) -> None:
        self._trials = min(self._trials + 1, MEMORY_TRIALS)
        mean = np.zeros(len(log_power)) if self._mean is None else self._mean
        self._mean = mean + (log_power - mean) / self._trials

    @staticmethod
    def _log_power(power: Array, area: list[int]) -> float:
        live = [power[place] for place in area if power[place] > 0]
        return float(np.log(live[0])) if live else 0.0
