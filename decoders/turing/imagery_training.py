"""Training of the classifiers of `decoders.turing.imagery` from labelled imagery recordings.

One classifier per person, and one of all people for unknown ones. Idle examples are cut from the
pauses between the trials. The temperature of the probabilities and the number of principal axes are
chosen by cross-validation over blocks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, StratifiedKFold

from bci_stream.errors import TruthError
from decoders.dsp import Array
from decoders.dsp.leads import common_names, leads_over, plain_name
from decoders.model import Model
from decoders.turing.imagery import (
    BANDS_HZ,
    BEGIN_S,
    CLASSES,
    HAND_AREAS,
    IDLE_WINDOW_S,
    SETTLE_S,
    TIMES_S,
    IdleState,
    ImageryClassifier,
    band_filters,
    change,
    sound_covariance,
)
from replay.model.source import Session
from tracks.turing import LIMIT_S, behaviour_of

LABELS = {1: 0, 2: 1, 7: 2}
"""Tasks of the track -> CLASSES; flicker (3-6) is not used as an example."""
PAUSE_S = 6.5
"""An idle example begins this long after a trigger, between two tasks."""
TEMPERATURES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
COMPONENTS = (10, 20, 40)
FEWEST_EXAMPLES = 8
FOLDS = 5
FOLDED = 0.6
"""Only numbers of axes below this share of the trials are tried."""
EVERYBODY = "*"


@dataclass(frozen=True)
class Examples:
    """x (examples, times, features), y (examples,) in CLASSES, block (examples,) numbers."""

    x: Array
    y: NDArray[np.int64]
    block: NDArray[np.int64]


def train_imagery(
    sessions: Sequence[Session], progress: Callable[[str], None]
) -> tuple[dict[str, NDArray[np.generic]], dict[str, object]]:
    """Arrays and settings of a model, for `classifier_of`."""
    names = _common_leads(sessions)
    people: dict[str, list[Examples]] = {}
    for session in sessions:
        progress(f"imagery of {session.subject}: features")
        people.setdefault(session.subject, []).append(examples_of(session, names))
    people[EVERYBODY] = [part for parts in people.values() for part in parts]
    trained = []
    for person, parts in people.items():
        progress(f"imagery of {person}: classifier")
        trained.append(_train(_join(parts), person))
    arrays: dict[str, NDArray[np.generic]] = {
        "weights": np.array([weights for weights, _ in trained]),
        "bias": np.array([bias for _, bias in trained]),
    }
    return arrays, {"leads": list(names), "people": list(people)}


def classifier_of(model: Model, subject: str) -> ImageryClassifier:
    """The person's own classifier, or that of all people. Raises ModelError."""
    leads, people = model.settings.get("leads"), model.settings.get("people")
    if not isinstance(leads, list) or not isinstance(people, list) or EVERYBODY not in people:
        raise model.broken("its leads or people are missing")
    number = people.index(subject if subject in people else EVERYBODY)
    features = len(BANDS_HZ) * len(leads) * (len(leads) + 1) // 2
    expected = (len(people), len(TIMES_S), len(CLASSES), features)
    weights, bias = model.array("weights"), model.array("bias")
    if weights.shape != expected or bias.shape != expected[:-1]:
        raise model.broken(f"weights of shape {weights.shape}, not {expected}")
    return ImageryClassifier(tuple(str(name) for name in leads), weights[number], bias[number])


def examples_of(session: Session, names: Sequence[str]) -> Examples:
    """The trials and pauses of a recording, with the features that the decoder would compute."""
    idling = IdleState()
    rows: list[tuple[Array, int, int]] = []
    for number, (bands, tasks) in enumerate(_blocks(session, names)):
        ends = [*(at for at, _ in tasks[1:]), bands.shape[1]][: len(tasks)]
        for (at, task), end in zip(tasks, ends, strict=True):
            pause = at + round(PAUSE_S * session.rate)
            begun = [(at, LABELS[task])] if task in LABELS else []
            for begin, label in [*begun, (pause, LABELS[7])]:
                features = _features(bands, begin, end, session.rate, idling)
                if features is not None:
                    rows.append((features, label, number))
            rest = at + round((LIMIT_S + SETTLE_S) * session.rate)
            _idle(bands, rest, end, session.rate, idling)
    if not rows:
        raise TruthError(
            f"recording of {session.subject!r} has no trial of imagery (codes 8-79 with task 1 or 2) "
            "followed by a pause; train turing on its imagery recordings"
        )
    x, y, block = zip(*rows, strict=True)
    return Examples(np.array(x), np.array(y), np.array(block))


def _blocks(
    session: Session, names: Sequence[str]
) -> Iterator[tuple[Array, list[tuple[int, int]]]]:
    """For each block the band-passed leads (bands, samples, leads), and its (position, task)s."""
    places = [_names_of(session).index(name) for name in names]
    bank = band_filters(session.rate, len(places))
    second = max(1, round(session.rate))
    parts: list[Array] = []
    tasks: list[tuple[int, int]] = []
    for packet in session.packets(second):
        parts.append(bank.step(packet.samples[:, places]))
        found = [(at, code) for at, code in packet.triggers if behaviour_of(code) is not None]
        tasks += [(packet.start + at, code & 7) for at, code in found]
        if packet.last_of_block:
            yield np.concatenate(parts, axis=1), tasks
            parts, tasks = [], []


def _features(bands: Array, begin: int, end: int, rate: float, idling: IdleState) -> Array | None:
    """(times, features) of a trial; None if it is incomplete or the idle state is unknown."""
    stops = [begin + round(time * rate) for time in TIMES_S]
    if not idling.windows or stops[-1] > end:
        return None
    first = begin + round(BEGIN_S * rate)
    return np.array([change(idling.log, sound_covariance(bands[:, first:stop])) for stop in stops])


def _idle(bands: Array, begin: int, end: int, rate: float, idling: IdleState) -> None:
    window = round(IDLE_WINDOW_S * rate)
    for at in range(begin, end - window + 1, window):
        idling.update(sound_covariance(bands[:, at : at + window]))


def _common_leads(sessions: Sequence[Session]) -> list[str]:
    first, *others = sessions
    over = [plain_name(first.leads[i].name) for i in leads_over(HAND_AREAS, first.leads)]
    return common_names([over, *map(_names_of, others)])


def _names_of(session: Session) -> list[str]:
    return [plain_name(lead.name) for lead in session.leads]


def _join(parts: Sequence[Examples]) -> Examples:
    """Concatenate parts, with distinct numbers of blocks."""
    offsets = np.cumsum([0, *(part.block.max() + 1 for part in parts)])
    blocks = [part.block + offset for part, offset in zip(parts, offsets, strict=False)]
    return Examples(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(blocks),
    )


def _train(examples: Examples, person: str) -> tuple[Array, Array]:
    """Weights (times, classes, features) and bias (times, classes)."""
    counts = np.bincount(examples.y, minlength=len(CLASSES))
    if counts.min() < FEWEST_EXAMPLES:
        found = ", ".join(f"{n} {name}" for n, name in zip(counts, CLASSES, strict=True))
        raise TruthError(
            f"imagery of {person!r}: at least {FEWEST_EXAMPLES} trials of each class are needed; "
            f"got {found}"
        )
    return _fit(examples)


def _fit(examples: Examples) -> tuple[Array, Array]:
    """Fit with the number of principal axes (one for all times) and the temperatures (one a time)
    that have the least cross-validated loss."""
    times = range(len(TIMES_S))
    scores = _held_out(examples)
    temperatures = {count: [_temperature(examples.y, s) for s in scores[count]] for count in scores}
    losses = {
        count: sum(_loss(examples.y, t * s) for t, s in zip(fitted, scores[count], strict=True))
        for count, fitted in temperatures.items()
    }
    count = min(losses, key=lambda number: losses[number])
    linear = [_linear(examples.x[:, time], examples.y, [count])[count] for time in times]
    scale = np.array(temperatures[count])[:, None]
    weights = np.array([weights for weights, _ in linear])
    return scale[..., None] * weights, scale * np.array([bias for _, bias in linear])


def _held_out(examples: Examples) -> dict[int, Array]:
    """Cross-validated scores (times, examples, classes) for each number of axes."""
    x, y = examples.x, examples.y
    counts = [count for count in COMPONENTS if count < FOLDED * len(y)] or [COMPONENTS[0]]
    scores = {count: np.zeros((len(TIMES_S), len(y), len(CLASSES))) for count in counts}
    for train, test in _folds(x[:, 0], y, examples.block):
        for time in range(len(TIMES_S)):
            for count, (weights, bias) in _linear(x[train, time], y[train], counts).items():
                scores[count][time, test] = x[test, time] @ weights.T + bias
    return scores


def _temperature(y: NDArray[np.int64], scores: Array) -> float:
    return min(TEMPERATURES, key=lambda temperature: _loss(y, temperature * scores))


def _linear(
    x: Array, y: NDArray[np.int64], counts: Sequence[int]
) -> dict[int, tuple[Array, Array]]:
    """(weights, bias) of an LDA on the first principal axes, for each number of axes.

    There are more features than trials, and most of them are noise.
    """
    middle = x.mean(axis=0)
    _, _, axes = np.linalg.svd(x - middle, full_matrices=False)
    found = {}
    for count in counts:
        main = axes[:count]
        lda = _lda((x - middle) @ main.T, y)
        weights = lda.coef_ @ main
        found[count] = (weights, lda.intercept_ - weights @ middle)
    return found


def _folds(
    x: Array, y: NDArray[np.int64], block: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(training, test): leaves out blocks, or single trials if there are too few blocks."""
    blocks = len(np.unique(block))
    if blocks >= 3:
        folds = list(GroupKFold(min(FOLDS, blocks)).split(x, y, block))
        if all(len(np.unique(y[train])) == len(CLASSES) for train, _ in folds):
            yield from folds
            return
    yield from StratifiedKFold(FOLDS).split(x, y)


def _lda(x: Array, y: NDArray[np.int64]) -> LinearDiscriminantAnalysis:
    even = np.full(len(CLASSES), 1 / len(CLASSES))
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=even).fit(x, y)


def _loss(y: NDArray[np.int64], scores: Array) -> float:
    log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return float(log_loss(y, np.exp(log_p), labels=range(len(CLASSES))))
