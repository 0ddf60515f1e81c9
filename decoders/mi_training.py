"""Training the mi decoder: from labelled blocks to references and weights."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyriemann.geometry.mean import mean_riemann

from bci_stream.errors import TruthError
from bci_stream.packet import Lead
from decoders.band_moments import BandMoments
from decoders.covariance import Array, sound
from decoders.lead_groups import SENSORIMOTOR, leads_over, plain_name
from decoders.mi_model import BANDS_HZ, MiModel, pack
from decoders.mi_stacking import Learner, Trials, stack
from decoders.mi_windows import SEGMENT_S
from decoders.model import Model
from decoders.session_shift import prior_trials
from decoders.spd import tangent
from replay.source import Session
from tracks.mi import CLASSES, IMAGERY_S, IMAGERY_START, SEGMENT_CODES

N_SEGMENTS = int(IMAGERY_S / SEGMENT_S)
WHOLE = (1, N_SEGMENTS)
WINDOWS = (WHOLE, (1, 4), (1, 6), (2, 5), (3, 6), (4, 7), (5, 8), (2, 6), (4, 8))
"""Segments from, to. The classifier is shown a trial through many windows, so that it knows short ones
too and has more to learn from."""
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
"""The broad band is what the literature begins with; mu and beta alone must earn their weight."""


@dataclass(frozen=True)
class Trial:
    """label 1-3; moments (segments, bands, n, n), each of `count` samples.

    freedom (bands,): the share of a band's samples that are independent of each other.
    """

    label: int
    moments: Array
    count: int
    freedom: Array

    def covariances(self, window: tuple[int, int]) -> Array:
        """(bands, n, n) over some segments, sound for as many samples as are independent."""
        return self._covariances(window, self.freedom)

    def plain_covariances(self, window: tuple[int, int]) -> Array:
        """The same as the libraries' examples have it: every sample counts."""
        return self._covariances(window, np.ones(len(self.freedom)))

    def _covariances(self, window: tuple[int, int], freedom: Array) -> Array:
        first, last = window
        n = self.count * (last - first)
        moments = self.moments[first:last].sum(axis=0)
        return np.array([sound(m / n, n * f) for m, f in zip(moments, freedom, strict=True)])


Labelled = tuple[str, list[Trial]]
"""(subject, trials of a session); the subject is empty where sessions of several stand together."""


def fit(recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]) -> Model:
    """A model for anyone, and for each subject of these recordings."""
    leads = common_leads([session.leads for session in recordings])
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
    """Sessions without some class as one: of their subject or, if that is not enough, of all.

    A session is seen from its own mean: where that is the mean of one class, nothing is left of it.
    """
    found = [session for session in sessions if _complete(session)]
    partial: dict[str, list[Trial]] = {}
    for subject, trials in (session for session in sessions if not _complete(session)):
        partial.setdefault(subject, []).extend(trials)
    found += [session for session in partial.items() if _complete(session)]
    rest = [
        trials for session in partial.items() if not _complete(session) for trials in session[1]
    ]
    return [*found, ("", rest)] if rest else found


def _complete(session: Labelled) -> bool:
    return {trial.label for trial in session[1]} == set(CLASSES)


def common_leads(recordings: Sequence[Sequence[Lead]]) -> tuple[str, ...]:
    """Plain names of the leads to look at: over the sensorimotor cortex, in all recordings."""
    first = recordings[0]
    names = [plain_name(first[place].name) for place in leads_over(SENSORIMOTOR, first)]
    for leads in recordings[1:]:
        have = {plain_name(lead.name) for lead in leads}
        names = [name for name in names if name in have]
    if not names:
        raise TruthError("the recordings have no lead in common: train them one by one")
    spread = np.unique(np.linspace(0, len(names) - 1, MAX_LEADS).round().astype(int))
    return tuple(names[i] for i in spread)


def labelled_trials(
    session: Session, leads: tuple[str, ...], bands_hz: tuple[tuple[float, float], ...] = BANDS_HZ
) -> Iterator[Trial]:
    """Every whole imagery of a labelled session."""
    have = {plain_name(lead.name): place for place, lead in enumerate(session.leads)}
    segment = round(SEGMENT_S * session.rate)
    moments = BandMoments(session.rate, [have[name] for name in leads], bands_hz)
    for label, x in _imageries(session, N_SEGMENTS * segment):
        yield _trial(label, x.reshape(N_SEGMENTS, segment, -1), moments)


def _imageries(session: Session, length: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """(label, samples) of each imagery that its block holds to the end."""
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
    """A classifier needs every class."""
    counts = dict.fromkeys(CLASSES, 0)
    for label in labels:
        counts[label] += 1
    if min(counts.values()) < 2:
        got = ", ".join(f"{CLASSES[number]} {count}" for number, count in counts.items())
        raise TruthError(f"mi training needs at least 2 trials of every class; got {got}")


def _begins(code: int) -> bool:
    return SEGMENT_CODES.get(code) == IMAGERY_START


def _trial(label: int, segments: NDArray[np.float32], moments: BandMoments) -> Trial:
    moments.begin()
    found, counts = [np.zeros_like(moments.sums)], [0]
    for segment in segments:
        moments.add(segment)
        found.append(moments.sums.copy())
        counts.append(moments.count)
    count = counts[-1] // len(segments)
    return Trial(label, np.diff(np.array(found), axis=0), count, moments.freedom)


def _fit_part(sessions: list[list[Trial]], leads: tuple[str, ...], seed: int) -> MiModel:
    """Each session is seen from its own mean, as the decoder will see its own."""
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
