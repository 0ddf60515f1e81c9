"""Reference decoders for mi: CSP + LDA, minimum distance to mean, tangent space + LR or SVM.

One band (8-30 Hz), one classifier per window, as in the examples of pyriemann. They are given what
`mi-riemann` is given: the same leads, two or three classes, and covariances that are seen from the
session's running mean, without labels.
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
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp import Array
from decoders.dsp.covariance import BandMoments
from decoders.dsp.leads import find_leads, plain_name
from decoders.dsp.spd import inverse_root, logarithm, positive_definite, upper_triangle
from decoders.mi.model import RunningReference
from decoders.mi.stacking import each_class
from decoders.mi.training import (
    ImageryTrial,
    check_labels,
    labelled_trials,
    prior_trials,
    training_leads,
)
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
    """A classifier of one centred covariance, fitted for each window."""

    name: ClassVar[str]
    arrays: ClassVar[tuple[str, ...]]
    moments_class: ClassVar[type[BandMoments]] = BandMoments
    copies: ClassVar[int] = 1
    """How often each lead stands in a covariance."""

    def __init__(self, model: Model | None = None, seed: int = 0) -> None:
        del seed
        if model is None:
            raise ModelError(f"decoder {self.name} needs a model; make one with `bci-decode train`")
        model.wanted_by("mi", self.name)
        self._leads = model.names("leads")
        self._classes = self._numbers(model)
        n = self.copies * len(self._leads)
        self._mean = model.array("mean", (n, n))
        self._prior = model.array("prior_trials", (1,))
        if n == 0 or not positive_definite(self._mean) or self._prior[0] <= 0:
            raise model.broken("its mean is not positive definite, or prior_trials not above 0")
        self._fitted = [
            {name: model.array(f"{name}.{number}") for name in self.arrays}
            for number in range(len(SEGMENTS))
        ]
        try:  # shows whether the arrays fit together
            shapes = {np.shape(self.scores(np.eye(n), fitted)) for fitted in self._fitted}
        except (ValueError, IndexError) as error:
            raise model.broken(f"its arrays do not fit together ({error})") from error
        if shapes != {(len(self._classes),)}:
            raise model.broken("its arrays have other classes than the model")
        self._subject = ""
        self._reference: RunningReference | None = None

    def start(self, info: SignalInfo) -> None:
        if self._reference is None or info.subject != self._subject:
            self._reference = RunningReference(self._mean[None], self._prior)
        self._subject = info.subject
        names = [plain_name(name) for name in info.lead_names]
        places, present = find_leads(self._leads, names)
        self._missing = np.tile(~present, self.copies)
        self._moments = self.moments_class(info.rate, places, BAND_HZ)
        self._trials = ImageryTrials(Windows.of(info), self._moments, self._decide)

    def step(self, packet: Packet) -> list[int]:
        return self._trials.step(packet)

    def _decide(self, number: int, last: bool) -> int:
        assert self._reference is not None
        covariances = self._reference.covariances(self._moments, self._missing)
        scores = self.scores(self._reference.centred(covariances)[0], self._fitted[number])
        if last:
            self._reference.learn(covariances)
        return self._classes[int(np.argmax(scores))]

    @staticmethod
    def scores(covariance: Array, fitted: Fitted) -> Array:
        """(classes,) of a centred covariance; the largest is reported."""
        raise NotImplementedError

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        """The arrays of a classifier of centred covariances."""
        raise NotImplementedError

    @classmethod
    def fit(
        cls, recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]
    ) -> Model:
        """Train on labelled recordings, pooled, each centred on its own mean."""
        del seed
        leads = training_leads([session.leads for session in recordings])
        progress(f"{cls.name}: trials")
        sessions = [
            list(labelled_trials(each, leads, BAND_HZ, cls.moments_class)) for each in recordings
        ]
        sessions = [trials for trials in sessions if trials]
        classes = check_labels(trial.label for trials in sessions for trial in trials)
        if any({trial.label for trial in trials} != set(classes) for trials in sessions):
            sessions = [[trial for trials in sessions for trial in trials]]  # as one session
        labels = np.array([trial.label for trials in sessions for trial in trials])
        whole = [_covariances(trials, SEGMENTS[-1]) for trials in sessions]
        means = [mean_riemann(covariances) for covariances in whole]
        arrays: Fitted = {
            "mean": mean_riemann(np.array(means)),
            "prior_trials": np.array([prior_trials(whole)]),
        }
        for number, window in enumerate(SEGMENTS):
            seen = [_covariances(trials, window) for trials in sessions]
            centred = [_centred(own, mean) for own, mean in zip(seen, means, strict=True)]
            found = cls.fit_window(np.concatenate(centred), labels)
            arrays |= {f"{name}.{number}": value for name, value in found.items()}
        names = [CLASSES[number] for number in classes]
        return Model("mi", cls.name, arrays, {"leads": list(leads), "classes": names})

    @staticmethod
    def _numbers(model: Model) -> tuple[int, ...]:
        numbers = {name: number for number, name in CLASSES.items()}
        names = model.names("classes")
        if len(names) < 2 or not set(names) <= set(numbers):
            raise model.broken(f"its classes are {', '.join(names)}")
        return tuple(numbers[name] for name in names)


def _covariances(trials: Sequence[ImageryTrial], window: tuple[int, int]) -> Array:
    return np.array([trial.covariances(window)[0] for trial in trials])


def _centred(covariances: Array, mean: Array) -> Array:
    inner = inverse_root(mean)
    return np.asarray(inner @ covariances @ inner)


def _vectors(covariances: Array) -> Array:
    """Tangent vectors at the identity."""
    return upper_triangle(logarithm(covariances))


class CspLda(_Reference):
    """Common spatial patterns and linear discriminant analysis."""

    name = "mi-csp"
    arrays = ("filters", "weights", "bias")

    @staticmethod
    def scores(covariance: Array, fitted: Fitted) -> Array:
        filters = fitted["filters"]
        features = np.log(np.diagonal(filters @ covariance @ filters.T))
        return np.asarray(fitted["weights"] @ features + fitted["bias"])

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        csp = CSP(nfilter=N_FILTERS, metric="euclid", log=True).fit(covariances, labels)
        lda = LinearDiscriminantAnalysis().fit(csp.transform(covariances), labels)
        linear = each_class(lda.coef_, lda.intercept_)
        return {"filters": csp.filters_, "weights": linear.weights, "bias": linear.bias}


class Mdm(_Reference):
    """Minimum distance to the Riemannian class means."""

    name = "mi-mdm"
    arrays = ("means",)

    @staticmethod
    def scores(covariance: Array, fitted: Fitted) -> Array:
        return -np.array([distance_riemann(covariance, mean) for mean in fitted["means"]])

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        return {"means": np.array(MDM().fit(covariances, labels).covmeans_)}


class TangentSpaceLr(_Reference):
    """Tangent space and logistic regression."""

    name = "mi-ts"
    arrays = ("weights", "bias")

    @staticmethod
    def scores(covariance: Array, fitted: Fitted) -> Array:
        return np.asarray(fitted["weights"] @ _vectors(covariance) + fitted["bias"])

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        lr = LogisticRegression(max_iter=2000).fit(_vectors(covariances), labels)
        linear = each_class(lr.coef_, lr.intercept_)
        return {"weights": linear.weights, "bias": linear.bias}


class TangentSpaceSvm(TangentSpaceLr):
    """Tangent space and a linear support vector machine, each class against the rest."""

    name = "mi-svm"

    @staticmethod
    def fit_window(covariances: Array, labels: NDArray[np.int64]) -> Fitted:
        svm = OneVsRestClassifier(SVC(kernel="linear")).fit(_vectors(covariances), labels)
        rows = [np.append(one.coef_, one.intercept_) for one in svm.estimators_]
        found = np.array(rows)
        linear = each_class(found[:, :-1], found[:, -1])
        return {"weights": linear.weights, "bias": linear.bias}
