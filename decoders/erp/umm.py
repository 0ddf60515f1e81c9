"""The decoder `erp-umm`: unsupervised mean-difference maximisation, made adaptive.

According to its authors a patent application covers the method (arXiv 2306.11830), so it is not the
default of the track.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import SignalInfo
from decoders.dsp import Array
from decoders.dsp.leads import common_names
from decoders.erp.flashes import TIMES_S, FlashFeatures, features_of, labelled_flashes
from decoders.erp.speller import Flash, SpellerDecoder
from decoders.erp.spelling import Spelling
from decoders.erp.stopping import Inference, SpellerLayout
from decoders.model import Model
from replay.model.source import Session

NAME = "erp-umm"
MAX_PEOPLE = 50
TRAINED_PRIOR_ENERGY = 3.0
"""Expected squared distance of a person's template from the mean of others, in noise units."""


@dataclass(frozen=True)
class ErpPerson:
    """A template (times, leads) and the names of its leads; weight: number of people."""

    leads: tuple[str, ...]
    template: Array
    weight: float = 1.0

    def template_for(self, leads: Sequence[str]) -> Array:
        """The template for these leads; 0 for an unknown lead."""
        known = dict(zip(self.leads, self.template.T, strict=True))
        unknown = np.zeros(len(self.template))
        return np.stack([known.get(name, unknown) for name in leads], axis=1)


class Speller(Protocol):
    """Infers characters from flashes: `Spelling`, or a reference."""

    def begin(self) -> None: ...
    def add(self, group: int, features: Array, position: int = 0) -> None: ...
    def infer(self, whitener: Array) -> Inference: ...
    def learned(self) -> Array | None: ...


class UmmDecoder(SpellerDecoder):
    """UMM made adaptive; options as of SpellerDecoder."""

    notice = (
        "erp-umm: a patent application covers this method, according to its authors "
        "(arXiv 2306.11830); the default, erp-bayes, does not use it"
    )

    def __init__(self, model: Model | None = None, **options: Any) -> None:
        super().__init__(model, **options)
        self._people = [] if model is None else [_population(model)]
        self._previous: Speller | None = None  # of the subject before

    def _begin_subject(self, info: SignalInfo) -> None:
        self._keep_template()
        self._features: FlashFeatures[Flash] = FlashFeatures(info)
        self._window = self._features.window
        self._spelling = self._previous = self._new_spelling()

    def _new_block(self) -> None:
        self._features.new_block()

    def _learn(self, x: NDArray[np.floating], flash: Flash | None) -> None:
        for (group, position), features in self._features.feed(x, flash):
            self._spelling.add(group, features, position)

    def _begin_trial(self) -> None:
        self._spelling.begin()

    def _infer(self) -> Inference:
        return self._spelling.infer(self._features.whitener())

    def _keep_template(self) -> None:
        """Use the template of the previous subject in the prior of the next."""
        template = None if self._previous is None else self._previous.learned()
        if template is not None:
            shape = (len(self._features.offsets), -1)
            self._people.append(ErpPerson(self._features.lead_names, template.reshape(shape)))
            del self._people[:-MAX_PEOPLE]

    def _new_spelling(self) -> Speller:
        n = self._features.n_features
        if not self._people:
            return Spelling(self._layout, n)
        prior = np.average(
            [person.template_for(self._features.lead_names) for person in self._people],
            axis=0,
            weights=[person.weight for person in self._people],
        )
        return Spelling(self._layout, n, prior.ravel(), TRAINED_PRIOR_ENERGY)


def _population(model: Model) -> ErpPerson:
    """The mean of the people that a model was trained on. Raises ModelError."""
    template = model.array("template")
    names = tuple(str(name) for name in model.arrays.get("leads", ()))
    if template.shape != (len(TIMES_S), len(names)):
        wanted = (len(TIMES_S), len(names))
        raise model.broken(f"its template has shape {template.shape}, not {wanted}")
    people = model.settings.get("people", 1)
    return ErpPerson(names, template, float(people) if isinstance(people, int) else 1.0)


def fit(
    recordings: Sequence[Session],
    *,
    seed: int,
    progress: Callable[[str], None],
    groups: Sequence[str] | None = None,
) -> Model:
    """Average the templates of the recordings over the leads that all of them have."""
    del seed  # deterministic
    layout = SpellerLayout.of(groups)
    templates: list[tuple[tuple[str, ...], Array]] = []
    for session in recordings:
        progress(f"flashes of {session.subject}")
        templates.append(template_of(session, layout))
    return pack(templates, layout)


def pack(templates: Sequence[tuple[tuple[str, ...], Array]], layout: SpellerLayout) -> Model:
    """A model file of templates: each (leads, (times, leads))."""
    names = common_names([leads for leads, _ in templates])
    aligned = [t[:, [leads.index(name) for name in names]] for leads, t in templates]
    arrays = {"leads": np.array(names), "template": np.mean(aligned, axis=0)}
    settings = {"people": len(templates), "groups": list(layout.groups)}
    return Model("erp", NAME, arrays, settings)


def template_of(session: Session, layout: SpellerLayout) -> tuple[tuple[str, ...], Array]:
    """(leads, (times, leads)): mean difference of targets and other flashes."""
    features = features_of(session)
    flashes = labelled_flashes(session, features, layout)
    try:
        difference = mean_difference(flashes, features.n_features)
    except TruthError as error:
        raise TruthError(f"session {session.subject}: {error}") from None
    return features.lead_names, difference.reshape(len(features.offsets), -1)


def mean_difference(flashes: Iterable[tuple[bool, Array]], n_features: int) -> Array:
    """Mean of targets minus mean of others. Raises TruthError if one of them is missing."""
    sums = np.zeros((2, n_features))
    counts = np.zeros(2)
    for is_target, vector in flashes:
        sums[int(is_target)] += vector
        counts[int(is_target)] += 1
    if counts.min() == 0:
        raise TruthError(
            f"erp training needs target and other flashes; got {int(counts[1])} and "
            f"{int(counts[0])}"
        )
    return np.asarray(sums[1] / counts[1] - sums[0] / counts[0])
