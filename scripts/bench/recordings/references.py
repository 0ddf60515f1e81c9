"""Reference methods of the tracks as decoders, for the benchmark only."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bci_stream.packet import Packet, SignalInfo
from decoders.chance import EcogConstant
from decoders.dsp import Array
from decoders.dsp.buffers import Ring, RunningScale
from decoders.dsp.filters import CausalFilter, bandpass
from decoders.dsp.leads import OCCIPITAL, common_names, leads_over
from decoders.ecog.features import FEATURES_A_LEAD, POWERS, EcogFeatures, slow_features
from decoders.emotion.decoder import PRIOR_SECONDS
from decoders.emotion.features import BANDS_HZ, AffectFeatures, SecondCounter
from decoders.emotion.training import EmotionPerson
from decoders.erp.references import NAME as XDAWN
from decoders.model import Model
from replay.model.source import Session
from scripts.bench.recordings.spellers import Speller, flashes_of
from tracks.common.angles import JOINTS
from tracks.common.codes import TRIAL_START
from tracks.emotion import CLASSES

HARMONICS = 3
TOP_HZ = 90.0


class CanonicalCorrelation:
    """turing: CCA (one band) or filter-bank CCA; the most correlated frequency, at fixed times.

    It reports at the last of `windows_s`; its answers at each window are kept in `answers`.
    It does not detect rest.
    """

    def __init__(
        self, frequencies_hz: Mapping[int, float], windows_s: Sequence[float], bands: int = 1
    ) -> None:
        self._frequencies = dict(frequencies_hz)
        self._windows_s = tuple(windows_s)
        self._weights = np.arange(1, bands + 1) ** -1.25 + 0.25
        self.answers: dict[float, list[int]] = {window: [] for window in windows_s}
        self.strengths: dict[float, list[float]] = {window: [] for window in windows_s}

    def start(self, info: SignalInfo) -> None:
        self._rate = info.rate
        self._leads = leads_over(OCCIPITAL, info.leads)
        half = 0.5 * min(self._frequencies.values())
        lows = [half * (k + 1) for k in range(len(self._weights))]
        sections = [bandpass(low, min(TOP_HZ, 0.45 * info.rate), info.rate) for low in lows]
        self._filters = [CausalFilter(sos, len(self._leads)) for sos in sections]
        packet = info.packet_samples
        whole = {window: int(window * info.rate) // packet * packet for window in self._windows_s}
        self._moments = {samples: window for window, samples in whole.items()}
        self._rings = [Ring(max(self._moments), len(self._leads)) for _ in lows]
        self._used: int | None = None

    def step(self, packet: Packet) -> list[int]:
        picked = packet.signal[:, self._leads]
        for one, ring in zip(self._filters, self._rings, strict=True):
            ring.push(one.step(picked))
        if any(8 <= code < 80 for _, code in packet.triggers):
            self._used = 0
            return []
        if self._used is None:
            return []
        self._used += packet.n
        window = self._moments.get(self._used)
        if window is None:
            return []
        task, strength = self._classify(self._used)
        self.answers[window].append(task)
        self.strengths[window].append(strength)
        if self._used < max(self._moments):
            return []
        self._used = None
        return self.answers[window][-1:]

    def _classify(self, samples: int) -> tuple[int, float]:
        scores = {task: self._score(hz, samples) for task, hz in self._frequencies.items()}
        best = max(scores, key=lambda task: scores[task])
        return best, scores[best]

    def _score(self, hz: float, samples: int) -> float:
        waves = _waves(hz, samples, self._rate)
        found = [_correlation(ring.last(samples), waves) ** 2 for ring in self._rings]
        return float(self._weights @ np.array(found))


class Recited:
    """turing: given answers, each reported when `window_s` of data are used."""

    def __init__(self, answers: Sequence[int], window_s: float) -> None:
        self._answers = list(answers)
        self._window_s = window_s

    def start(self, info: SignalInfo) -> None:
        self._samples = int(self._window_s * info.rate) // info.packet_samples * info.packet_samples
        self._next = 0
        self._used: int | None = None

    def step(self, packet: Packet) -> list[int]:
        if any(8 <= code < 80 for _, code in packet.triggers):
            self._used = 0
            return []
        if self._used is None:
            return []
        self._used += packet.n
        if self._used < self._samples or self._next >= len(self._answers):
            return []
        self._used = None
        self._next += 1
        return [self._answers[self._next - 1]]


def _waves(hz: float, samples: int, rate: float) -> Array:
    angle = 2 * np.pi * hz * np.arange(samples)[:, None] / rate * np.arange(1, HARMONICS + 1)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


def _correlation(x: Array, y: Array) -> float:
    """The first canonical correlation, by QR."""
    first = qr(x - x.mean(axis=0), mode="economic")[0]
    second = qr(y - y.mean(axis=0), mode="economic")[0]
    return float(np.linalg.svd(first.T @ second, compute_uv=False)[0])


class EntropyClassifier:
    """emotion: differential entropy of each second and an LDA or SVM.

    own_units: each person's seconds are standardised by the person's own so far, as ours are, and
    the scores of a clip's seconds so far are averaged; else as it is, without smoothing.
    """

    def __init__(
        self, people: Sequence[EmotionPerson], leads: int, kind: str, own_units: bool = False
    ) -> None:
        size = len(BANDS_HZ) * leads
        own = [p.x[:, :size] for p in people]
        raw = [p.x[:, :size] * p.sd[:size] + p.mean[:size] for p in people]
        x = np.concatenate(own if own_units else raw)
        y = np.concatenate([p.y for p in people])
        last = LinearDiscriminantAnalysis("lsqr", "auto") if kind == "lda" else SVC(kernel="linear")
        self._size = size
        self._own_units = own_units
        self._classifier = make_pipeline(StandardScaler(), last).fit(x, y)
        seconds = np.concatenate(raw)
        self._usual = (seconds.mean(axis=0), seconds.std(axis=0))

    def start(self, info: SignalInfo) -> None:
        self._seconds = SecondCounter(info.packet_samples)
        self._features = AffectFeatures(info.rate, len(info.leads))
        self._scale = RunningScale(*self._usual, PRIOR_SECONDS)
        self._clip: list[Array] = []

    def step(self, packet: Packet) -> list[int]:
        if any(code == TRIAL_START for _, code in packet.triggers):
            self._clip = []
        reports: list[int] = []
        for span in self._seconds.spans(packet):
            self._features.push(packet.signal[span.begin : span.end])
            if span.completes:
                reports.append(self._report(self._features.take()[: self._size]))
        return reports

    def _report(self, row: Array) -> int:
        if not self._own_units:
            return int(self._classifier.predict(row[None])[0])
        self._scale.update(row)
        scores = self._classifier.decision_function(self._scale.standard(row)[None])[0]
        self._clip.append(np.asarray(scores))
        return int(self._classifier.classes_[int(np.mean(self._clip, axis=0).argmax())])


class UsualClass:
    """emotion: the same class each second."""

    def __init__(self, number: int = min(CLASSES)) -> None:
        self._number = number

    def start(self, info: SignalInfo) -> None:
        self._seconds = SecondCounter(info.packet_samples)

    def step(self, packet: Packet) -> list[int]:
        spans = self._seconds.spans(packet)
        return [self._number for span in spans if span.completes]


PENALTIES = np.logspace(0, 7, 15)
BLOCKS = 5


class BandPowerRegression:
    """ecog: regression from the present band powers ("powers"), from the slow potential ("slow"), or
    from all that ours sees ("both": powers in two smoothing scales and slow potential, with lags),
    whose penalty is then chosen by cross-validation over blocks in time."""

    def __init__(self, training: Sequence[Session], kind: str) -> None:
        self._kind = kind
        pairs = [self._rows_of(session) for session in training]
        x = np.concatenate([x for x, _ in pairs])
        y = np.concatenate([y for _, y in pairs])
        last = {
            "powers": RidgeCV(alphas=(1.0, 10.0, 100.0, 1000.0)),
            "slow": LinearRegression(),
            "both": RidgeCV(alphas=PENALTIES, cv=KFold(BLOCKS)),
        }[kind]
        self._regression = make_pipeline(StandardScaler(), last).fit(x[::8], y[::8])

    def start(self, info: SignalInfo) -> None:
        self._features = EcogFeatures(info.rate, len(info.leads))

    def step(self, packet: Packet) -> list[list[list[float]]]:
        rows = self._features.step(packet.signal)
        if not len(rows):
            return []
        return [self._regression.predict(self._present(rows)).tolist()]

    def _rows_of(self, session: Session) -> tuple[Array, Array]:
        features = EcogFeatures(session.rate, len(session.leads))
        rows = [features.step(p.samples) for p in session.packets(round(session.rate))]
        angles = np.asarray(session.angles)
        x = self._present(np.concatenate(rows)[: len(angles)])
        return x, angles[: len(x)]

    def _present(self, rows: Array) -> Array:
        """The wanted features of each lead."""
        number = np.arange(FEATURES_A_LEAD)
        wanted = {"powers": number < POWERS, "slow": slow_features(), "both": number >= 0}[
            self._kind
        ]
        return rows[:, np.tile(wanted, rows.shape[1] // FEATURES_A_LEAD)]


def constant_angles(training: Sequence[Session]) -> EcogConstant:
    """ecog: the mean angles of the training recordings."""
    angles = np.concatenate([np.asarray(session.angles) for session in training])
    return EcogConstant(angles.mean(axis=0).tolist() if len(angles) else [0.0] * len(JOINTS))


LDA_KINDS = ("shrinkage", "Toeplitz") if find_spec("toeplitzlda") else ("shrinkage",)
NO_TOEPLITZ = (
    "left out: Toeplitz LDA, because the package toeplitzlda is not installed. Install it with "
    "`pip install --no-deps toeplitzlda blockmatrix`: with its dependencies it would replace numpy 2 "
    "by an older one, which it does not need here"
)


def lda_model(people: Sequence[Speller], kind: str) -> Model:
    """erp: a linear discriminant of the flashes of people, over the leads that all have.

    For the decoder `XdawnLda`, which spells by summed log-odds.
    """
    flashes = [list(flashes_of(person)) for person in people]
    names = common_names([own[0][2] for own in flashes])
    labels = np.array([target for own in flashes for target, _, _ in own])
    vectors = np.concatenate([_chosen(own, names) for own in flashes])
    if kind == "Toeplitz":
        from toeplitzlda.classification import ToeplitzLDA

        weights = _toeplitz_weights(ToeplitzLDA(n_channels=len(names)), vectors, labels)
    else:
        lda = LinearDiscriminantAnalysis("lsqr", "auto", priors=(0.5, 0.5))
        weights = lda.fit(vectors, labels).coef_[0]
    # Scale and bias of log-odds: two normal distributions of the training's scores.
    scores = vectors @ weights
    gap = scores[labels].mean() - scores[~labels].mean()
    variance = 0.5 * (scores[labels].var() + scores[~labels].var())
    scale = gap / variance
    bias = -0.5 * scale * float(scores[labels].mean() + scores[~labels].mean())
    arrays = {
        "leads": np.array(names),
        "template": (scale * weights).reshape(-1, len(names)),
        "odds": np.array([bias, float(gap**2 / variance)]),
    }
    return Model("erp", XDAWN, arrays)


def _chosen(flashes: Sequence[tuple[bool, Array, tuple[str, ...]]], names: list[str]) -> Array:
    """(flashes, times * leads) of these leads."""
    leads = flashes[0][2]
    places = [leads.index(name) for name in names]
    whole = np.array([vector for _, vector, _ in flashes]).reshape(len(flashes), -1, len(leads))
    return np.asarray(whole[:, :, places].reshape(len(flashes), -1))


def _toeplitz_weights(lda: Any, vectors: Array, labels: NDArray[np.bool_]) -> Array:
    """Its weights; the package's own prediction does not work with every version of scikit-learn."""
    lda.fit(vectors, labels.astype(int))
    return np.asarray(lda.coef_[-1] - lda.coef_[0]) if len(lda.coef_) > 1 else lda.coef_[0]
