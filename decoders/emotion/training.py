"""Emotion training: one classifier of all people's seconds, each in the person's own units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import Packet
from decoders.dsp.filters import Array
from decoders.emotion.features import AffectFeatures, SecondCounter
from decoders.emotion.model import EmotionModel, pack, standard_name
from decoders.model import Model
from replay.model.source import Session
from tracks.common.truth import read_truth
from tracks.emotion import CLASSES, MARGIN_S
from tracks.registry import TRACKS


@dataclass(frozen=True)
class Scatter:
    """n (classes,), sums (classes, features), squares (features, features)."""

    n: Array
    sums: Array
    squares: Array

    @classmethod
    def of(cls, x: Array, y: NDArray[np.int64], classes: int) -> "Scatter":
        """x (rows, features), y (rows,) from 0 to classes - 1."""
        member = np.eye(classes)[y]
        return cls(member.sum(axis=0), member.T @ x, x.T @ x)

    def __add__(self, other: "Scatter") -> "Scatter":
        return Scatter(self.n + other.n, self.sums + other.sums, self.squares + other.squares)

    def discriminant(self, shrinkage: float) -> tuple[Array, Array]:
        """Weights (classes, features) and bias (classes,), all classes alike likely beforehand.

        shrinkage: of the covariance within classes, towards all features alike and unrelated.
        """
        means = self.sums / self.n[:, None]
        within = (self.squares - means.T @ self.sums) / self.n.sum()
        usual = float(np.trace(within)) / len(within)
        shrunk = (1 - shrinkage) * within + (shrinkage * usual + 1e-9) * np.eye(len(within))
        weights = np.asarray(np.linalg.solve(shrunk, means.T).T, float)
        return weights, -0.5 * (weights * means).sum(axis=1)


SHRINKAGES = (0.1, 0.3, 0.5, 0.7, 0.9)
USUAL_SHRINKAGE = 0.7
"""Where one person, or too few, train: nobody can be left out."""
FOLDS = 5


@dataclass(frozen=True)
class EmotionPerson:
    """x (seconds, features) in the person's own units, y (seconds,), mean and sd: those units."""

    x: Array
    y: NDArray[np.int64]
    mean: Array
    sd: Array


def fit(recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]) -> Model:
    """A model from labelled recordings of some people."""
    del seed  # nothing here is random
    leads = _common_leads(recordings)
    people = []
    for session in recordings:
        progress(f"features of {session.subject}")
        people.append(person_of(session, leads))
    progress("classifier")
    return pack(train(people, leads))


def train(people: Sequence[EmotionPerson], leads: Sequence[str]) -> EmotionModel:
    """A classifier of these people's seconds."""
    groups = [list(people[k::FOLDS]) for k in range(min(FOLDS, len(people)))]
    scatters = [reduce(add, map(_scatter, group)) for group in groups]
    whole = reduce(add, scatters)
    missing = [name for number, name in CLASSES.items() if not whole.n[number]]
    if missing:
        raise TruthError(
            f"these recordings have no clip of: {', '.join(missing)}. All nine must be trained on"
        )
    weights, bias = whole.discriminant(_choose_shrinkage(groups, scatters))
    return EmotionModel(
        tuple(leads),
        np.mean([person.mean for person in people], axis=0),
        np.mean([person.sd for person in people], axis=0),
        weights,
        bias,
    )


def _scatter(person: EmotionPerson) -> Scatter:
    return Scatter.of(person.x, person.y, len(CLASSES))


def _choose_shrinkage(groups: Sequence[list[EmotionPerson]], scatters: Sequence[Scatter]) -> float:
    """The one with most seconds right of people left out; of equals the strongest.

    No formula for independent rows can tell: a clip's seconds repeat each other.
    """
    right = dict.fromkeys(SHRINKAGES, 0)
    for number, group in enumerate(groups):
        others = [scatter for k, scatter in enumerate(scatters) if k != number]
        rest = reduce(add, others) if others else None
        if rest is None or not rest.n.all():
            continue
        for shrinkage in SHRINKAGES:
            weights, bias = rest.discriminant(shrinkage)
            right[shrinkage] += sum(
                int(((p.x @ weights.T + bias).argmax(axis=1) == p.y).sum()) for p in group
            )
    if not any(right.values()):
        return USUAL_SHRINKAGE
    return max(right, key=lambda shrinkage: (right[shrinkage], shrinkage))


def person_of(session: Session, leads: Sequence[str]) -> EmotionPerson:
    """A recording's labelled seconds, in units of all its seconds."""
    track = TRACKS["emotion"]
    blocks = session.block_triggers()
    if blocks is None:
        raise TruthError(f"session {session.subject!r} is live: training needs a recording")
    truth = read_truth(track, session.rate, blocks)
    labels = _Labels(truth, session.rate)
    packet_samples = track.packet_samples_at(session.rate)
    names = [standard_name(lead.name) for lead in session.leads]
    places = [names.index(name) for name in leads]
    features = AffectFeatures(session.rate, len(places))
    seconds, rows = SecondCounter(packet_samples), []
    block = -1
    for raw in session.packets(packet_samples):
        packet = Packet(raw.samples, raw.triggers, raw.start, raw.block)
        for stretch in seconds.stretches(packet):
            if stretch.first:
                features.skip()
                block += 1
            features.push(raw.samples[stretch.begin : stretch.end, places])
            if stretch.completes:
                rows.append((features.take(), labels.at(block, raw.start + stretch.end)))
    return _in_own_units(session, rows)


def _in_own_units(session: Session, rows: Sequence[tuple[Array, int]]) -> EmotionPerson:
    x = np.array([row for row, _ in rows])
    y = np.array([label for _, label in rows], dtype=np.int64)
    if not (y >= 0).any():
        raise TruthError(f"recording of {session.subject!r}: no whole second lies inside a clip")
    mean, sd = x.mean(axis=0), x.std(axis=0) + 1e-9
    known = y >= 0
    return EmotionPerson((x[known] - mean) / sd, y[known], mean, sd)


class _Labels:
    """Which class a second has that ends at a position of a block; -1 outside of clips."""

    def __init__(self, truth: dict[str, object], rate: float) -> None:
        clips = truth.get("clips")
        self._clips = clips if isinstance(clips, list) else []
        self._rate = rate

    def at(self, block: int, end: int) -> int:
        for clip in self._clips:
            first = clip["start"] + (1 + MARGIN_S) * self._rate
            if clip["block"] == block and first <= end <= clip["end"] - MARGIN_S * self._rate:
                return int(clip["label"])
        return -1


def _common_leads(recordings: Sequence[Session]) -> list[str]:
    each = [[standard_name(lead.name) for lead in session.leads] for session in recordings]
    common = [name for name in each[0] if all(name in names for names in each)]
    if not common:
        raise TruthError("these recordings have no lead in common: train on one montage at a time")
    return common
