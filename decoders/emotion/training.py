"""Training of the emotion decoder: one classifier of all people's standardised seconds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import Packet
from decoders.dsp import Array
from decoders.dsp.leads import common_names
from decoders.emotion.decoder import EmotionModel, pack, standard_name
from decoders.emotion.features import AffectFeatures, SecondCounter
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
        """LDA weights (classes, features) and bias (classes,), with equal class priors.

        shrinkage: of the within-class covariance, towards a multiple of the identity.
        """
        means = self.sums / self.n[:, None]
        within = (self.squares - means.T @ self.sums) / self.n.sum()
        usual = float(np.trace(within)) / len(within)
        shrunk = (1 - shrinkage) * within + (shrinkage * usual + 1e-9) * np.eye(len(within))
        weights = np.asarray(np.linalg.solve(shrunk, means.T).T, float)
        return weights, -0.5 * (weights * means).sum(axis=1)


SHRINKAGES = (0.1, 0.3, 0.5, 0.7, 0.9)
USUAL_SHRINKAGE = 0.7
"""Used when too few people train for any to be left out."""
FOLDS = 5


@dataclass(frozen=True)
class EmotionPerson:
    """x (seconds, features), standardised by the person's mean and sd; y (seconds,)."""

    x: Array
    y: NDArray[np.int64]
    mean: Array
    sd: Array


def fit(recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]) -> Model:
    """Train a model on labelled recordings of some people."""
    del seed  # deterministic
    leads = common_names(
        [[standard_name(lead.name) for lead in session.leads] for session in recordings]
    )
    people = []
    for session in recordings:
        progress(f"features of {session.subject}")
        people.append(person_of(session, leads))
    progress("classifier")
    return pack(train(people, leads))


def train(people: Sequence[EmotionPerson], leads: Sequence[str]) -> EmotionModel:
    """Train the classifier. Raises TruthError if a class is missing."""
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
    """The labelled seconds of a recording, standardised by all its seconds."""
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
        for span in seconds.spans(packet):
            if span.first:
                features.reset()
                block += 1
            features.push(raw.samples[span.begin : span.end, places])
            if span.completes:
                rows.append((features.take(), labels.at(block, raw.start + span.end)))
    return _standardised(session, rows)


def _standardised(session: Session, rows: Sequence[tuple[Array, int]]) -> EmotionPerson:
    x = np.array([row for row, _ in rows])
    y = np.array([label for _, label in rows], dtype=np.int64)
    if not (y >= 0).any():
        raise TruthError(f"recording of {session.subject!r}: no whole second lies inside a clip")
    mean, sd = x.mean(axis=0), x.std(axis=0) + 1e-9
    known = y >= 0
    return EmotionPerson((x[known] - mean) / sd, y[known], mean, sd)


class _Labels:
    """The class of the second that ends at a position of a block; -1 outside clips."""

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
