"""Training of the mi decoder: from labelled blocks to references and weights."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyriemann.geometry.mean import mean_riemann

from bci_stream.errors import TruthError
from bci_stream.packet import Lead
from decoders.dsp import Array
from decoders.dsp.covariance import BandMoments, sound
from decoders.dsp.leads import SENSORIMOTOR, brain_leads, common_names, find_leads, plain_name
from decoders.dsp.spd import bounded, tangent
from decoders.mi.model import BANDS_HZ, MiModel, pack
from decoders.mi.stacking import Learner, Linear, Trials, fitted, stack
from decoders.mi.trials import SEGMENT_S
from decoders.model import Model
from replay.model.source import Session
from tracks.mi import CLASSES, IMAGERY_S, IMAGERY_START, SEGMENT_CODES

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
ENOUGH_LEADS = 16
"""With fewer leads over the sensorimotor cortex the others are used as well."""
MU, BETA, BROAD = range(len(BANDS_HZ))
LEARNERS = (
    Learner(BROAD, 1.0, 0.5),
    Learner(BROAD, 0.1, 0.0),
    Learner(MU, 1.0, 0.25),
    Learner(BETA, 1.0, 0.25),
)
BOUND = 1.5
"""The largest norm of a tangent vector, in median norms of the training's: artefacts are larger."""


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
        first, last = window
        n = self.count * (last - first)
        moments = self.moments[first:last].sum(axis=0)
        return np.array([sound(m / n, n * f) for m, f in zip(moments, self.freedom, strict=True)])


Labelled = tuple[str, list[ImageryTrial]]
"""(subject, trials of a session); the subject is empty for trials pooled over subjects."""


def fit(recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]) -> Model:
    """Train a general model, and one for each subject of these recordings.

    The general model is for people who are not among them. A subject's own starts from the model of
    the other subjects, as far as the subject's held-out trials agree with it.
    """
    leads = training_leads([session.leads for session in recordings])
    labelled: list[Labelled] = []
    for session in recordings:
        progress(f"trials of {session.subject}")
        trials = list(labelled_trials(session, leads))
        if trials:
            labelled.append((session.subject, trials))
    classes = check_labels(trial.label for _, trials in labelled for trial in trials)
    progress("features")
    sessions = [CentredSession.of(*session) for session in _completed(labelled, classes)]
    subjects = sorted({session.subject for session in sessions} - {""})
    progress("weights")
    parts = [_fit_part(sessions, leads, seed)]
    if len(subjects) == len(sessions) == 1:
        return pack([parts[0], parts[0]], subjects, classes)
    for subject in subjects:
        progress(f"weights of {subject}")
        own = [session for session in sessions if session.subject == subject]
        rest = [session for session in sessions if session.subject != subject]
        parts.append(_fit_part(own, leads, seed, _of_others(rest, classes, seed)))
    return pack(parts, subjects, classes)


def _of_others(
    sessions: Sequence["CentredSession"], classes: Sequence[int], seed: int
) -> list[Linear] | None:
    """The classifiers of other people, or None where they lack a class."""
    labels = {int(label) for session in sessions for label in session.labels}
    return fitted(_trials(sessions)[0], LEARNERS, seed) if labels == set(classes) else None


def _completed(sessions: list[Labelled], classes: Sequence[int]) -> list[Labelled]:
    """Pool sessions that lack a class: by subject or, if that is not enough, over subjects.

    A session is centred on its own mean: with one class only, that would remove the class.
    """

    def complete(session: Labelled) -> bool:
        return {trial.label for trial in session[1]} == set(classes)

    found = [session for session in sessions if complete(session)]
    partial: dict[str, list[ImageryTrial]] = {}
    for subject, trials in (session for session in sessions if not complete(session)):
        partial.setdefault(subject, []).extend(trials)
    found += [session for session in partial.items() if complete(session)]
    rest = [trials for session in partial.items() if not complete(session) for trials in session[1]]
    return [*found, ("", rest)] if rest else found


def training_leads(recordings: Sequence[Sequence[Lead]]) -> tuple[str, ...]:
    """Plain names of the leads to use, of those that all recordings have: the ones over the
    sensorimotor cortex and, where these are fewer than ENOUGH_LEADS, the others as well."""
    names = common_names(
        [[plain_name(each[place].name) for place in brain_leads(each)] for each in recordings]
    )
    motor = [name for name in names if SENSORIMOTOR.fullmatch(name)]
    if len(motor) >= ENOUGH_LEADS:
        return tuple(_spread(motor, MAX_LEADS))
    rest = [name for name in names if name not in motor]
    chosen = {*motor, *_spread(rest, MAX_LEADS - len(motor))}
    return tuple(name for name in names if name in chosen)


def _spread(names: list[str], most: int) -> list[str]:
    """At most so many of the names, evenly spread over their order."""
    if len(names) <= most:
        return names
    return [names[i] for i in np.linspace(0, len(names) - 1, most).round().astype(int)]


def labelled_trials(
    session: Session,
    leads: tuple[str, ...],
    bands_hz: tuple[tuple[float, float], ...] = BANDS_HZ,
    moments_class: type[BandMoments] = BandMoments,
) -> Iterator[ImageryTrial]:
    """Every complete imagery of a labelled session."""
    places, _ = find_leads(leads, [plain_name(lead.name) for lead in session.leads])
    segment = round(SEGMENT_S * session.rate)
    moments = moments_class(session.rate, places, bands_hz)
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


def check_labels(labels: Iterable[int]) -> tuple[int, ...]:
    """The classes of the trials. Raises TruthError unless there are two or more, each with at least
    2 trials."""
    counts = dict.fromkeys(CLASSES, 0)
    for label in labels:
        counts[label] += 1
    found = tuple(number for number, count in counts.items() if count)
    if len(found) < 2 or min(counts[number] for number in found) < 2:
        got = ", ".join(f"{CLASSES[number]} {count}" for number, count in counts.items())
        raise TruthError(f"mi training needs at least 2 trials of two or more classes; got {got}")
    return found


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


@dataclass(frozen=True)
class CentredSession:
    """The trials of a session, seen from its own mean, as the decoder sees them.

    x (bands, windows, trials, features): tangent vectors. means (bands, n, n). whole (bands, trials,
    n, n): covariances of the whole imagery.
    """

    subject: str
    labels: NDArray[np.int64]
    x: Array
    means: Array
    whole: Array

    @classmethod
    def of(cls, subject: str, trials: Sequence[ImageryTrial]) -> "CentredSession":
        seen = np.array([[trial.covariances(window) for trial in trials] for window in WINDOWS])
        by_band = np.moveaxis(seen, 2, 0)  # bands, windows, trials
        whole = by_band[:, WINDOWS.index(WHOLE)]
        means = np.array([mean_riemann(covariances) for covariances in whole])
        x = np.array([tangent(own, mean) for own, mean in zip(by_band, means, strict=True)])
        return cls(subject, np.array([trial.label for trial in trials]), x, means, whole)


def _trials(sessions: Sequence[CentredSession]) -> tuple[Trials, Array]:
    """The trials of sessions with bounded tangent vectors, and the bounds (bands,).

    What is left out together is a person if there are several, else a session.
    """
    x = np.concatenate([session.x for session in sessions], axis=2)
    bounds = BOUND * np.median(np.linalg.norm(x[:, WINDOWS.index(WHOLE)], axis=-1), axis=-1)
    subjects = [session.subject for session in sessions]
    several = len(set(subjects)) > 1
    groups = [subjects.index(each) if several else k for k, each in enumerate(subjects)]
    group = np.repeat(groups, [len(session.labels) for session in sessions])
    labels = np.concatenate([session.labels for session in sessions])
    return Trials(bounded(x, bounds[:, None, None, None]), labels, group), bounds


def _fit_part(
    sessions: Sequence[CentredSession],
    leads: tuple[str, ...],
    seed: int,
    others: Sequence[Linear] | None = None,
) -> MiModel:
    """others: the classifiers of other people, one per band, to start from."""
    trials, bounds = _trials(sessions)
    linear = stack(trials, LEARNERS, REPORTED, seed, others)
    bands = range(len(BANDS_HZ))
    return MiModel(
        leads,
        np.array([mean_riemann(np.array([s.means[band] for s in sessions])) for band in bands]),
        np.array([prior_trials([s.whole[band] for s in sessions]) for band in bands]),
        bounds,
        np.array([each.weights for each in linear]),
        np.array([each.bias for each in linear]),
    )
