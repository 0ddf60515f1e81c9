"""Training of the mi decoder: from labelled blocks to references and weights."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyriemann.geometry.mean import mean_riemann
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold

from bci_stream.errors import TruthError
from bci_stream.packet import Lead
from decoders.dsp import Array
from decoders.dsp.covariance import BandMoments, sound
from decoders.dsp.leads import SENSORIMOTOR, common_names, find_leads, leads_over, plain_name
from decoders.dsp.spd import tangent
from decoders.mi.model import BANDS_HZ, MiModel, pack
from decoders.mi.trials import SEGMENT_S
from decoders.model import Model
from replay.model.source import Session
from tracks.mi import CLASSES, IMAGERY_S, IMAGERY_START, SEGMENT_CODES

FOLDS = 5
CAUTION = 0.1
"""Penalty of moving a stacking weight by 1, in nats per trial, against overfitting few trials."""

Labels = NDArray[np.int64]


class Learner(NamedTuple):
    """A logistic regression on the features of one band; weight: its initial stacking weight.

    penalty_c: sklearn's C; small values approach the nearest class mean.
    """

    band: int
    penalty_c: float
    weight: float


class Linear(NamedTuple):
    """weights (classes, features), bias (classes,)."""

    weights: Array
    bias: Array

    def scores(self, x: Array) -> Array:
        return np.asarray(x @ self.weights.T + self.bias)


class Trials(NamedTuple):
    """x (bands, windows, trials, features), y (trials,) labels, session (trials,) numbers."""

    x: Array
    y: Labels
    session: Labels


def stack(
    trials: Trials, learners: tuple[Learner, ...], reported: list[int], seed: int
) -> list[Linear]:
    """One classifier per band; the sum of their scores is the stacked score of all learners.

    reported: the windows used for validation.
    """
    everything = np.arange(len(trials.y))
    fitted = [fit_linear(trials, learner, everything, seed) for learner in learners]
    weights = _weights(trials, learners, reported, seed)
    return [_sum(fitted, weights, learners, band) for band in range(len(trials.x))]


def fit_linear(trials: Trials, learner: Learner, rows: Labels, seed: int) -> Linear:
    """Fit a learner on some trials; each trial has weight 1 over all its windows."""
    x = trials.x[learner.band][:, rows]
    windows, _, features = x.shape
    regression = LogisticRegression(
        C=learner.penalty_c, class_weight="balanced", max_iter=2000, tol=1e-3, random_state=seed
    )
    share = np.full(windows * len(rows), 1 / windows)
    y = np.tile(trials.y[rows], windows)
    regression.fit(x.reshape(-1, features), y, sample_weight=share)
    return Linear(regression.coef_, regression.intercept_)


def _weights(
    trials: Trials, learners: tuple[Learner, ...], reported: list[int], seed: int
) -> Array:
    """Non-negative weights, one per learner: maximum likelihood of held-out trials with a penalty."""
    start = np.array([learner.weight for learner in learners])
    folds = list(_folds(trials))
    if not folds:
        return start
    classes, y = np.unique(trials.y, return_inverse=True)
    held_out = np.zeros((len(learners), len(reported), len(y), len(classes)))
    for rows, out in folds:
        for number, learner in enumerate(learners):
            linear = fit_linear(trials, learner, rows, seed)
            seen = trials.x[learner.band][reported][:, out]
            held_out[number][:, out] = log_softmax(linear.scores(seen), axis=-1)
    log_p = held_out.reshape(len(learners), -1, len(classes))
    loss = _loss(log_p, np.tile(y, len(reported)), start)
    found = minimize(loss, start, jac=True, bounds=[(0, None)] * len(start), method="L-BFGS-B")
    return np.asarray(found.x)


def _loss(log_p: Array, y: Labels, start: Array) -> Callable[[Array], tuple[float, Array]]:
    """log_p (learners, rows, classes) -> a function: weights to loss and gradient."""
    right = log_p[:, np.arange(len(y)), y]

    def loss(weights: Array) -> tuple[float, Array]:
        joint = log_softmax(np.tensordot(weights, log_p, 1), axis=-1)
        expected = (np.exp(joint) * log_p).sum(axis=-1)
        away = weights - start
        value = -joint[np.arange(len(y)), y].mean() + CAUTION * away @ away
        return float(value), np.asarray((expected - right).mean(axis=1) + 2 * CAUTION * away)

    return loss


def _folds(trials: Trials) -> Iterator[tuple[Labels, Labels]]:
    """(training, test) rows: leaves out sessions if there are three or more, else trials."""
    sessions = len(np.unique(trials.session))
    if sessions >= 3:
        yield from GroupKFold(min(FOLDS, sessions)).split(trials.y, trials.y, trials.session)
        return
    fewest = int(np.unique(trials.y, return_counts=True)[1].min())
    if fewest >= 2:
        yield from StratifiedKFold(min(FOLDS, fewest)).split(trials.y, trials.y)


def _sum(fitted: list[Linear], weights: Array, learners: tuple[Learner, ...], band: int) -> Linear:
    own = [
        (weight, linear)
        for weight, linear, learner in zip(weights, fitted, learners, strict=True)
        if learner.band == band
    ]
    return Linear(
        np.asarray(sum(weight * linear.weights for weight, linear in own)),
        np.asarray(sum(weight * linear.bias for weight, linear in own)),
    )


USUAL_TRIALS = 10.0
"""Used with one session, where the difference between sessions is unknown."""
FEWEST_TRIALS = 1.0


def prior_trials(sessions: Sequence[Array]) -> float:
    """How many trials of a new session the mean of these weighs; each (trials, n, n)."""
    counts = np.array([len(covariances) for covariances in sessions])
    if len(sessions) < 2 or counts.min() < 2:
        return USUAL_TRIALS
    centre = mean_riemann(np.array([mean_riemann(covariances) for covariances in sessions]))
    points = [tangent(covariances, centre) for covariances in sessions]
    scatter = float(np.mean([session.var(axis=0, ddof=1).sum() for session in points]))
    apart = float(np.var([session.mean(axis=0) for session in points], axis=0, ddof=1).sum())
    shift = max(apart - scatter * float(np.mean(1 / counts)), 0.0)
    # The mean of a new session varies by the shift; the common mean has an error of its own.
    unknown = shift * (1 + 1 / len(sessions)) + scatter / float(counts.sum())
    return max(scatter / unknown, FEWEST_TRIALS)


N_SEGMENTS = int(IMAGERY_S / SEGMENT_S)
WHOLE = (1, N_SEGMENTS)
WINDOWS = (WHOLE, (1, 4), (1, 6), (2, 5), (3, 6), (4, 7), (5, 8), (2, 6), (4, 8))
"""(first, last) segments. Each trial is used in many windows: short ones occur, and data increase."""
REPORTED = [WINDOWS.index(window) for window in ((1, 4), (1, 6), WHOLE)]
"""The windows of the three reports."""
MAX_LEADS = 24
MU, BETA, BROAD = range(len(BANDS_HZ))
LEARNERS = (
    Learner(BROAD, 1.0, 0.5),
    Learner(BROAD, 0.1, 0.5),
    Learner(MU, 1.0, 0.0),
    Learner(BETA, 1.0, 0.0),
)
"""The broad band is the usual choice; mu and beta start with weight 0."""


@dataclass(frozen=True)
class ImageryTrial:
    """label 1-3; moments (segments, bands, n, n), each of `count` samples.

    freedom (bands,): the share of a band's samples that are independent of each other.
    """

    label: int
    moments: Array
    count: int
    freedom: Array

    def covariances(self, window: tuple[int, int]) -> Array:
        """(bands, n, n) over some segments, shrunk for the number of independent samples."""
        return self._covariances(window, self.freedom)

    def plain_covariances(self, window: tuple[int, int]) -> Array:
        """The same with every sample counted as independent, as in the libraries' examples."""
        return self._covariances(window, np.ones(len(self.freedom)))

    def _covariances(self, window: tuple[int, int], freedom: Array) -> Array:
        first, last = window
        n = self.count * (last - first)
        moments = self.moments[first:last].sum(axis=0)
        return np.array([sound(m / n, n * f) for m, f in zip(moments, freedom, strict=True)])


Labelled = tuple[str, list[ImageryTrial]]
"""(subject, trials of a session); the subject is empty for trials pooled over subjects."""


def fit(recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]) -> Model:
    """Train a general model, and one for each subject of these recordings."""
    leads = training_leads([session.leads for session in recordings])
    sessions: list[Labelled] = []
    for session in recordings:
        progress(f"trials of {session.subject}")
        trials = list(labelled_trials(session, leads))
        if trials:
            sessions.append((session.subject, trials))
    check_labels(trial.label for _, trials in sessions for trial in trials)
    sessions = _completed(sessions)
    subjects = sorted({subject for subject, _ in sessions} - {""})
    progress("weights")
    parts = [_fit_part([trials for _, trials in sessions], leads, seed)]
    if len(subjects) == len(sessions) == 1:
        return pack([parts[0], parts[0]], subjects)
    for subject in subjects:
        progress(f"weights of {subject}")
        parts.append(_fit_part([t for name, t in sessions if name == subject], leads, seed))
    return pack(parts, subjects)


def _completed(sessions: list[Labelled]) -> list[Labelled]:
    """Pool sessions that lack a class: by subject or, if that is not enough, over subjects.

    A session is centred on its own mean: with one class only, that would remove the class.
    """
    found = [session for session in sessions if _complete(session)]
    partial: dict[str, list[ImageryTrial]] = {}
    for subject, trials in (session for session in sessions if not _complete(session)):
        partial.setdefault(subject, []).extend(trials)
    found += [session for session in partial.items() if _complete(session)]
    rest = [
        trials for session in partial.items() if not _complete(session) for trials in session[1]
    ]
    return [*found, ("", rest)] if rest else found


def _complete(session: Labelled) -> bool:
    return {trial.label for trial in session[1]} == set(CLASSES)


def training_leads(recordings: Sequence[Sequence[Lead]]) -> tuple[str, ...]:
    """Plain names of the leads over the sensorimotor cortex that all recordings have."""
    first, *others = recordings
    over = [plain_name(first[place].name) for place in leads_over(SENSORIMOTOR, first)]
    names = common_names([over, *([plain_name(lead.name) for lead in each] for each in others)])
    spread = np.unique(np.linspace(0, len(names) - 1, MAX_LEADS).round().astype(int))
    return tuple(names[i] for i in spread)


def labelled_trials(
    session: Session, leads: tuple[str, ...], bands_hz: tuple[tuple[float, float], ...] = BANDS_HZ
) -> Iterator[ImageryTrial]:
    """Every complete imagery of a labelled session."""
    places, _ = find_leads(leads, [plain_name(lead.name) for lead in session.leads])
    segment = round(SEGMENT_S * session.rate)
    moments = BandMoments(session.rate, places, bands_hz)
    for label, x in _imageries(session, N_SEGMENTS * segment):
        yield _trial(label, x.reshape(N_SEGMENTS, segment, -1), moments)


def _imageries(session: Session, length: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """(label, samples) of each imagery that is complete in its block."""
    label, block = 0, 0
    pieces: list[NDArray[np.float32]] = []
    for packet in session.packets(round(session.rate)):
        if packet.block != block:
            label, block = 0, packet.block
        done = 0
        begins = [(offset, code // 10) for offset, code in packet.triggers if _begins(code)]
        for offset, following in (*begins, (len(packet.samples), 0)):
            pieces.append(packet.samples[done:offset])
            if label and sum(map(len, pieces)) >= length:
                yield label, np.concatenate(pieces)[:length]
                label = 0
            done = offset
            if following or not label:
                label, pieces = following or label, []


def check_labels(labels: Iterable[int]) -> None:
    """Raise TruthError unless there are at least 2 trials of every class."""
    counts = dict.fromkeys(CLASSES, 0)
    for label in labels:
        counts[label] += 1
    if min(counts.values()) < 2:
        got = ", ".join(f"{CLASSES[number]} {count}" for number, count in counts.items())
        raise TruthError(f"mi training needs at least 2 trials of every class; got {got}")


def _begins(code: int) -> bool:
    return SEGMENT_CODES.get(code) == IMAGERY_START


def _trial(label: int, segments: NDArray[np.float32], moments: BandMoments) -> ImageryTrial:
    moments.begin()
    found, counts = [np.zeros_like(moments.sums)], [0]
    for segment in segments:
        moments.add(segment)
        found.append(moments.sums.copy())
        counts.append(moments.count)
    count = counts[-1] // len(segments)
    return ImageryTrial(label, np.diff(np.array(found), axis=0), count, moments.freedom)


def _fit_part(sessions: list[list[ImageryTrial]], leads: tuple[str, ...], seed: int) -> MiModel:
    """Each session is centred on its own mean, as the decoder does."""
    windows = [np.array([[t.covariances(w) for t in ts] for w in WINDOWS]) for ts in sessions]
    references, features, priors = [], [], []
    for band in range(len(BANDS_HZ)):
        own = [session[:, :, band] for session in windows]
        whole = [session[WINDOWS.index(WHOLE)] for session in own]
        means = [mean_riemann(session) for session in whole]
        priors.append(prior_trials(whole))
        pairs = zip(own, means, strict=True)
        features.append(np.concatenate([tangent(x, mean) for x, mean in pairs], axis=1))
        references.append(mean_riemann(np.array(means)))
    labels = np.array([trial.label for trials in sessions for trial in trials])
    numbers = np.repeat(np.arange(len(sessions)), [len(trials) for trials in sessions])
    linear = stack(Trials(np.array(features), labels, numbers), LEARNERS, REPORTED, seed)
    weights, bias = (np.array(values) for values in zip(*linear, strict=True))
    return MiModel(leads, np.array(references), np.array(priors), weights, bias)
