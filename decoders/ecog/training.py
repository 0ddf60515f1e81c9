"""Training of the ecog decoder: leads and weights of each subject.

The teacher is the subject with most data (subject 1 of the track). The weights of the others are
shrunk towards the teacher's, as far as that improves the score on held-out pieces of their own data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from decoders.dsp import Array
from decoders.ecog.features import FEATURES_A_LEAD, EcogFeatures, feature_places, slow_features
from decoders.ecog.model import Kalman, SubjectModel, pack
from decoders.ecog.ridge import (
    RegressionMoments,
    Ridge,
    Scale,
    fit_ridge,
    held_out_fits,
    least_needed,
    total,
    usual_ridge,
)
from decoders.model import Model
from replay.model.source import Session
from tracks.common.angles import ANGLE_RATE, compare
from tracks.ecog import CHANNELS_SENT

FOLDS = 5
PIECES_A_FOLD = 2
"""Each fold is two pieces, since a calibration is rest first and then walking."""
SHORTEST_ROWS = ANGLE_RATE * 10
"""In a short recording each fold is one piece, to keep pieces from being neighbours."""
SHORTEST_RECORDING_ROWS = ANGLE_RATE
EVERY_ROWS = 8
"""Weights are learned from every eighth row: neighbours are alike."""
KEPT_ROWS = ANGLE_RATE * 300
"""Rows per subject kept to choose the smoothing: five minutes."""
DOUBTS = (1.0, 10.0, 100.0)
"""Factors on the error variance of the estimates, which is not white as the filter assumes."""
WORTH_IT = 0.5
"""Points by which smoothing must improve the score."""
ENOUGH_ROWS = ANGLE_RATE * 60
"""No smoothing is learned from less than a minute."""


@dataclass
class _Data:
    """The data of one subject: moments of each fold, and some complete rows."""

    leads: tuple[str, ...]
    folds: dict[int, RegressionMoments] = field(default_factory=dict)
    kept: list[tuple[int, NDArray[np.float32], Array]] = field(default_factory=list)
    angles: list[Array] = field(default_factory=list)
    kept_rows: int = 0

    @property
    def moments(self) -> list[RegressionMoments]:
        return [self.folds[number] for number in sorted(self.folds)]

    @property
    def rows(self) -> float:
        return sum(part.n for part in self.folds.values())

    def add(self, fold: int, features: Array, angles: Array) -> None:
        moments = RegressionMoments.of(features[::EVERY_ROWS], angles[::EVERY_ROWS])
        self.folds[fold] = self.folds[fold] + moments if fold in self.folds else moments
        if self.kept_rows < KEPT_ROWS:
            self.kept.append((fold, features.astype(np.float32), angles))
            self.kept_rows += len(features)


def fit(recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]) -> Model:
    """Train a model of every subject in these recordings."""
    del seed  # deterministic
    data: dict[str, _Data] = {}
    for session in recordings:
        progress(f"features of {session.subject}")
        _collect(session, data)
    teacher = max(data, key=lambda subject: data[subject].rows)
    subjects = []
    for subject, seen in data.items():
        progress(f"weights of {subject}")
        subjects.append(_train(subject, seen, None if subject == teacher else data[teacher]))
    return pack(subjects, teacher)


def _collect(session: Session, data: dict[str, _Data]) -> None:
    if session.angles is None:
        raise TruthError(
            f"recording of {session.subject!r} has no joint angles, which training needs"
        )
    names = tuple(lead.name for lead in session.leads)
    seen = data.setdefault(session.subject, _Data(names))
    if seen.leads != names:
        raise TruthError(
            f"recordings of {session.subject!r}: their leads differ ({seen.leads} and {names})"
        )
    features = EcogFeatures(session.rate, len(names))
    total_rows = len(session.angles)
    if total_rows < SHORTEST_RECORDING_ROWS:
        raise TruthError(
            f"recording of {session.subject!r}: {total_rows / ANGLE_RATE:g} s of angles; training "
            f"needs at least {SHORTEST_RECORDING_ROWS / ANGLE_RATE:g} s"
        )
    piece = max(total_rows // (FOLDS * PIECES_A_FOLD), min(SHORTEST_ROWS, total_rows // FOLDS), 1)
    done = 0
    for packet in session.packets(max(1, round(session.rate))):
        rows = features.step(packet.samples)[: total_rows - done]
        for begin, end in _cut(done, done + len(rows), piece):
            part = slice(begin - done, end - done)
            seen.add((begin // piece) % FOLDS, rows[part], session.angles[begin:end])
        done += len(rows)
    seen.angles.append(session.angles[:KEPT_ROWS])


def _cut(begin: int, end: int, piece: int) -> list[tuple[int, int]]:
    """Split [begin, end) where pieces end."""
    inner = range((begin // piece + 1) * piece, end, piece)
    bounds = [begin, *inner, end]
    return [(a, b) for a, b in pairwise(bounds) if b > a]


def _train(subject: str, seen: _Data, teacher: _Data | None) -> SubjectModel:
    chosen = _choose_leads(seen)
    places = feature_places(chosen)
    names = tuple(seen.leads[i] for i in chosen)
    slow = np.tile(slow_features(), len(chosen))
    folds = [part.pick(places) for part in seen.moments]
    start = None if teacher is None else _teach(teacher, names)
    ridge, choice = fit_ridge(folds, slow, start)
    fits = held_out_fits(folds, slow, choice, start)
    return SubjectModel(subject, names, ridge, _choose_smoothing(seen, places, fits, ridge.scale))


def _choose_leads(seen: _Data) -> list[int]:
    """The leads that contribute most to the fit: at most as many as the track sends."""
    if len(seen.leads) <= CHANNELS_SENT:
        return list(range(len(seen.leads)))
    return least_needed(total(seen.moments), FEATURES_A_LEAD, CHANNELS_SENT)


def _teach(teacher: _Data, names: Sequence[str]) -> Array | None:
    """The teacher's weights for the same leads; None if it lacks some."""
    if not set(names) <= set(teacher.leads):
        return None
    places = feature_places([teacher.leads.index(name) for name in names])
    return usual_ridge(total(teacher.moments).pick(places)).weights


def _choose_smoothing(
    seen: _Data, places: NDArray[np.int64], fits: Sequence[Ridge], scale: Scale
) -> Kalman:
    """The Kalman filter with the best score on held-out data."""
    order = sorted(seen.folds)
    estimates = [fits[order.index(fold)].predict(rows[:, places]) for fold, rows, _ in seen.kept]
    predicted = (np.concatenate(estimates) - scale.y_mean) / scale.y_sd
    truth = (np.concatenate([angles for *_, angles in seen.kept]) - scale.y_mean) / scale.y_sd
    error = ((predicted - truth) ** 2).mean(axis=0)
    moved = np.concatenate([(angles - scale.y_mean) / scale.y_sd for angles in seen.angles])
    best, kalman = _score(predicted, truth) + WORTH_IT, Kalman.none(truth.shape[1])
    for doubt in DOUBTS if len(truth) >= ENOUGH_ROWS else ():
        tried = Kalman.learn(moved, doubt * error)
        score = _score(tried.smooth(predicted)[0], truth)
        if score > best:
            best, kalman = score, tried
    return kalman


def _score(predicted: Array, truth: Array) -> float:
    nearness = compare(truth, predicted, constant_nrmse=1.0, constant_corr=0.0)
    return 50 * (1 - nearness.nrmse) + 50 * nearness.corr
