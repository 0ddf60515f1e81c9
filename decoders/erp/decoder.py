"""The decoder `erp-bayes`: spells without training on the subject, and learns during the session."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import SignalInfo
from decoders.dsp import Array
from decoders.dsp.spd import positive_definite
from decoders.erp.model import SpellerModel
from decoders.erp.noise import SpellerSignal
from decoders.erp.prior import LanguagePrior, ResponsePrior, weak_prior
from decoders.erp.response import N_BUMPS, RESPONSE_S
from decoders.erp.speller import Flash, SpellerDecoder
from decoders.erp.stopping import Inference
from decoders.model import Model

NAME = "erp-bayes"
MAX_PEOPLE = 50
WAIT_S = 0.8
"""A sequence is decided on so long after its last flash, unless the next one would count by then."""


@dataclass(frozen=True)
class KnownResponse:
    """Mean response of some people (bumps, leads) in units of the leads' standard deviations.

    weight: how many people.
    """

    leads: tuple[str, ...]
    mean: Array
    weight: float = 1.0


class BayesDecoder(SpellerDecoder):
    """Variational Bayes on the speller's constraint; other options as of SpellerDecoder.

    language: a sample of the language that is written freely (a text); off by default, since the
    characters of a contest are drawn at random. Raises RuleError if the text can't be used.
    """

    def __init__(
        self, model: Model | None = None, language: str | None = None, **options: Any
    ) -> None:
        super().__init__(model, **options)
        characters = self._layout.characters
        self._language = None if language is None else LanguagePrior(language, characters)
        self._cov = None if model is None else covariance_of(model)
        self._people = [] if model is None else [_population(model)]
        self._spelling: SpellerModel | None = None

    def _begin_subject(self, info: SignalInfo) -> None:
        self._keep_response()
        self._signal = SpellerSignal(info, RESPONSE_S)
        self._window = int(WAIT_S * info.rate)
        self._spelling = SpellerModel(
            self._layout, self._priors(), self._signal.step_s, self._language
        )

    def _new_block(self) -> None:
        self._signal.new_block()

    def _learn(self, x: NDArray[np.floating], flash: Flash | None) -> None:
        samples = self._signal.feed(x, None if flash is None else flash[0])
        if self._spelling is not None:
            self._spelling.add(samples)

    def _begin_trial(self) -> None:
        if self._spelling is not None:
            self._spelling.begin()

    def _infer(self) -> Inference:
        assert self._spelling is not None  # start() makes it
        return self._spelling.infer(self._signal.whitening())

    def _keep_response(self) -> None:
        """Use the response of the previous subject in the prior of the next."""
        response = None if self._spelling is None else self._spelling.learned()
        if response is not None:
            self._people.append(KnownResponse(self._signal.lead_names, response))
            del self._people[:-MAX_PEOPLE]

    def _priors(self) -> list[ResponsePrior]:
        """One without other people; before it, one of them where there are any."""
        names = self._signal.lead_names
        weak = weak_prior(len(names))
        if not self._people:
            return [weak]
        cov = weak.cov if self._cov is None else self._cov
        return [ResponsePrior(mean_response(self._people, names), cov), weak]


def mean_response(people: Sequence[KnownResponse], leads: Sequence[str]) -> Array:
    """(bumps, leads): for each lead the mean over the people who have it; 0 where no one has."""
    total = np.zeros((N_BUMPS, len(leads)))
    weights = np.zeros(len(leads))
    for person in people:
        for place, name in enumerate(leads):
            if name in person.leads:
                total[:, place] += person.weight * person.mean[:, person.leads.index(name)]
                weights[place] += person.weight
    return total / np.maximum(weights, 1e-12)


def covariance_of(model: Model) -> Array:
    """The covariance of people's responses. Raises ModelError."""
    cov = model.array("cov", (N_BUMPS, N_BUMPS))
    if not positive_definite(cov):
        raise model.broken("its covariance is not positive definite")
    return cov


def _population(model: Model) -> KnownResponse:
    """The mean of the people that a model was trained on. Raises ModelError."""
    names = model.names("leads")
    people = model.settings.get("people")
    if not isinstance(people, int) or isinstance(people, bool) or people < 1:
        raise model.broken(f"its number of people is {people!r:.60}")
    return KnownResponse(names, model.array("mean", (N_BUMPS, len(names))), float(people))
