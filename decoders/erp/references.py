"""Reference decoder for erp: xDAWN + LDA trained on labelled flashes, spelling by summed log-odds.

Features and stopping rule are those of the default decoder; it does not learn during the session.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyriemann.spatialfilters import Xdawn
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from bci_stream.errors import TruthError
from decoders.dsp import Array
from decoders.erp.flashes import features_of, labelled_flashes
from decoders.erp.stopping import Inference, SpellerLayout
from decoders.erp.umm import UmmDecoder
from decoders.model import Model, ModelError
from replay.model.source import Session

NAME = "erp-xdawn"
N_FILTERS = 4


class XdawnLda(UmmDecoder):
    """xDAWN spatial filters and linear discriminant analysis."""

    def __init__(self, model: Model | None = None, **options: Any) -> None:
        """options: as of UmmDecoder."""
        if model is None:
            raise ModelError(f"decoder {NAME} needs a model; make one with `bci-decode train`")
        super().__init__(model.wanted_by("erp", NAME), **options)

    def _new_spelling(self) -> "SummedOdds":
        assert self._model is not None  # __init__ refuses
        weights = self._people[0].template_for(self._features.lead_names).ravel()
        bias, energy = self._model.array("odds")
        return SummedOdds(self._layout, weights, float(bias), float(energy))

    @staticmethod
    def fit(
        recordings: Sequence[Session],
        *,
        seed: int,
        progress: Callable[[str], None],
        groups: Sequence[str] | None = None,
    ) -> Model:
        """Train on labelled recordings, pooled; they must have the same leads."""
        del seed
        flashes: list[tuple[bool, Array]] = []
        leads: set[tuple[str, ...]] = set()
        for session in recordings:
            progress(f"{NAME}: flashes of {session.subject}")
            features = features_of(session)
            leads.add(features.lead_names)
            flashes += labelled_flashes(session, features, SpellerLayout.of(groups))
        if len(leads) > 1:
            raise TruthError(f"{NAME}: the recordings have different leads; train them one by one")
        names = leads.pop()
        labels = np.array([is_target for is_target, _ in flashes])
        vectors = np.array([vector for _, vector in flashes])
        weights, bias, energy = xdawn_lda(vectors, labels, len(names))
        arrays = {
            "leads": np.array(names),
            "template": weights.reshape(-1, len(names)),
            "odds": np.array([bias, energy]),
        }
        return Model("erp", NAME, arrays)


def xdawn_lda(
    vectors: Array, labels: NDArray[np.bool_], n_leads: int
) -> tuple[Array, float, float]:
    """(weights of a flash's features, bias, the scores' d'^2): log-odds of a target."""
    every = vectors.reshape(len(vectors), -1, n_leads).transpose(0, 2, 1)
    live = every.std(axis=(0, 2)) > 0  # a flat lead has no inverse
    epochs = every[:, live]
    xdawn = Xdawn(nfilter=min(N_FILTERS, int(live.sum()))).fit(epochs, labels)
    filtered = xdawn.transform(epochs)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=(0.5, 0.5))
    lda.fit(filtered.reshape(len(filtered), -1), labels)
    by_filter = lda.coef_[0].reshape(filtered.shape[1:])  # (filters, times)
    by_lead = np.zeros((by_filter.shape[1], n_leads))  # (times, leads), the order of the features
    by_lead[:, live] = by_filter.T @ xdawn.filters_
    weights = by_lead.ravel()
    scores = vectors @ weights
    spread = np.var(scores[~labels]) + np.var(scores[labels])
    gap = scores[labels].mean() - scores[~labels].mean()
    return weights, float(lda.intercept_[0]), float(2 * gap**2 / spread)


class SummedOdds:
    """The running trial's log-odds, summed by group; implements `Speller`."""

    def __init__(self, layout: SpellerLayout, weights: Array, bias: float, energy: float) -> None:
        self._members = layout.membership
        self._weights, self._bias, self._energy = weights, bias, energy
        self.begin()

    def begin(self) -> None:
        self._odds = np.zeros(self._members.shape[1])

    def add(self, group: int, features: Array, position: int = 0) -> None:
        del position
        self._odds[group] += float(self._weights @ features) + self._bias

    def learned(self) -> None:
        """None: it does not learn during the session."""

    def infer(self, whitener: Array) -> Inference:
        del whitener  # training has accounted for the noise
        logs = self._members @ self._odds
        likelihood = np.exp(logs - logs.max())
        return Inference(likelihood / likelihood.sum(), self._energy)
