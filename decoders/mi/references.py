"""Reference decoders for mi: CSP + LDA, minimum distance to mean, tangent space + logistic regression.

One band (8-30 Hz), one classifier per window, trained as in the examples of pyriemann.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pyriemann.classification import MDM
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.spatialfilters import CSP
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp import Array
from decoders.dsp.covariance import BandMoments, sound
from decoders.dsp.leads import find_leads, plain_name
from decoders.dsp.spd import tangent
from decoders.mi.training import check_labels, labelled_trials, training_leads
from decoders.mi.trials import ImageryTrials, Windows
from decoders.model import Model, ModelError
from replay.model.source import Session
from tracks.mi import CLASSES

BAND_HZ = ((8.0, 30.0),)
SEGMENTS = ((1, 4), (1, 6), (1, 8))
"""The windows of the three reports, in training segments (0.5 s)."""
N_FILTERS = 6

Fitted = dict[str, NDArray[Any]]


class _Reference:
    """A classifier of one covariance, fitted for each window."""

    name: ClassVar[str]

    def __init__(self, model: Model | None = None, seed: int = 0) -> None:
        del seed
        if model is None:
            raise ModelError(f"decoder {self.name} needs a model; make one with `bci-decode train`")
        model.wanted_by("mi", self.name)
        self._leads = model.names("leads")
        self._fitted = [
            {name: model.array(f"{name}.{number}") for name in self.arrays}
            for number in range(len(SEGMENTS))
        ]
        try:  # shows whether the arrays fit together
            found = [self.classify(np.eye(len(self._leads)), fitted) for fitted in self._fitted]
        except (ValueError, IndexError) as error:
            raise model.broken(f"its arrays do not fit together ({error})") from error
        if not set(found) <= set(CLASSES):
            raise model.broken("its arrays have other classes than the track")

    def start(self, info: SignalInfo) -> None:
        names = [plain_name(name) for name in info.lead_names]
        places, self._present = find_leads(self._leads, names)
        self._moments = BandMoments(info.rate, places, BAND_HZ)
        self._trials = ImageryTrials(Windows.of(info), self._moments, self._decide)

    def step(self, packet: Packet) -> list[int]:
        return self._trials.step(packet)

    def _decide(self, number: int, last: bool) -> int:
        del last
        count = self._moments.count
        present = np.outer(self._present, self._present)
        moment = self._moments.sums[0] * present / max(count, 1)
        return self.classify(sound(moment, count), self._fitted[number])

    arrays: ClassVar[tuple[str, ...]]

    @staticmethod
    def classify(covariance: Array, fitted: Fitted) -> int:
        raise NotImplementedError

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        raise NotImplementedError

    @classmethod
    def fit(
        cls, recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]
    ) -> Model:
        """Train on labelled recordings, pooled."""
        del seed
        leads = training_leads([session.leads for session in recordings])
        progress(f"{cls.name}: trials")
        trials = [t for s in recordings for t in labelled_trials(s, leads, BAND_HZ)]
        check_labels(trial.label for trial in trials)
        labels = np.array([trial.label for trial in trials])
        arrays: Fitted = {}
        for number, window in enumerate(SEGMENTS):
            covariances = np.array([trial.plain_covariances(window)[0] for trial in trials])
            fitted = cls.fit_window(covariances, labels)
            arrays |= {f"{name}.{number}": value for name, value in fitted.items()}
        return Model("mi", cls.name, arrays, {"leads": list(leads)})


class CspLda(_Reference):
    """Common spatial patterns and linear discriminant analysis."""

    name = "mi-csp"
    arrays = ("filters", "weights", "bias")

    @staticmethod
    def classify(covariance: Array, fitted: Fitted) -> int:
        filters = fitted["filters"]
        features = np.log(np.diagonal(filters @ covariance @ filters.T))
        return int((fitted["weights"] @ features + fitted["bias"]).argmax()) + 1

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        csp = CSP(nfilter=N_FILTERS, metric="euclid", log=True).fit(covariances, labels)
        lda = LinearDiscriminantAnalysis().fit(csp.transform(covariances), labels)
        return {"filters": csp.filters_, "weights": lda.coef_, "bias": lda.intercept_}


class Mdm(_Reference):
    """Minimum distance to the Riemannian class means."""

    name = "mi-mdm"
    arrays = ("means",)

    @staticmethod
    def classify(covariance: Array, fitted: Fitted) -> int:
        return int(np.argmin([distance_riemann(covariance, mean) for mean in fitted["means"]])) + 1

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        return {"means": np.array(MDM().fit(covariances, labels).covmeans_)}


class TangentSpaceLr(_Reference):
    """Tangent space at the training mean, and logistic regression."""

    name = "mi-ts"
    arrays = ("reference", "weights", "bias")

    @staticmethod
    def classify(covariance: Array, fitted: Fitted) -> int:
        features = tangent(covariance, fitted["reference"])
        return int((fitted["weights"] @ features + fitted["bias"]).argmax()) + 1

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        reference = mean_riemann(covariances)
        lr = LogisticRegression(max_iter=2000).fit(tangent(covariances, reference), labels)
        return {"reference": reference, "weights": lr.coef_, "bias": lr.intercept_}
