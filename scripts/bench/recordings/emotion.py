"""The emotion part of the decoders' benchmark: across people, a decision each second, causally.

Recordings are npz files a person: `rate` and `class0` to `class8` (leads, samples), one clip a
class. They become sessions of the track at its rate, the clips in an order drawn from a seed;
each person is decoded by models of the others.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from bci_stream.packet import Lead
from decoders.decoder import Decoder
from decoders.emotion.decoder import EmotionDecoder, pack
from decoders.emotion.training import EmotionPerson, person_of, train
from decoders.offline import OfflineRun, run_offline
from replay.model.recording import ArrayBlock, Recording
from scripts.bench.recordings.files import NotThisLayoutError, read_each
from scripts.bench.recordings.references import EntropyClassifier, UsualClass
from scripts.bench.table import Row, mean, row_of
from tracks.common.codes import BLOCK_END, BLOCK_START, SESSION_START, TRIAL_END, TRIAL_START
from tracks.emotion import CLASSES, CLIPS

LEADS = ("AF3", "F7", "F3", "FC5", "T7", "P7", "O1", "O2", "P8", "T8", "FC6", "F4", "F8", "AF4")
RATE = 250
LEAST_RATE = 100
LEAST_S = 4
"""Of a clip; its first and last second are not judged."""
PAUSE_S = 1
ORDERS = 2
"""Each person is decoded with the clips in so many orders: the units that run along depend on it.
"""
FIRST_CLIP = {label: min(n for n, (_, c) in CLIPS.items() if c == label) for label in CLASSES}

Make = Callable[[list[EmotionPerson]], Decoder]
METHODS: dict[str, Make] = {
    "emotion-de": lambda people: EmotionDecoder(model=pack(train(people, LEADS))),
    "DE + LDA": lambda people: EntropyClassifier(people, len(LEADS), "lda"),
    "DE + SVM": lambda people: EntropyClassifier(people, len(LEADS), "svm"),
    "DE + LDA, own units, smoothed": lambda people: EntropyClassifier(
        people, len(LEADS), "lda", own_units=True
    ),
    "DE + SVM, own units, smoothed": lambda people: EntropyClassifier(
        people, len(LEADS), "svm", own_units=True
    ),
    "one class": lambda _: UsualClass(),
}


def run(data_dir: Path) -> list[Row]:
    """Rows of all people in data_dir/emotion."""
    paths = list(read_each(sorted((data_dir / "emotion").glob("*.npz")), _checked))
    if len(paths) < 2:
        return []  # each is decoded by models of the others
    trained = [person_of(session_of(path, order=0), LEADS) for path in paths]
    rows = []
    for name, make in METHODS.items():
        runs = [_left_out(paths, trained, number, make) for number in range(len(paths))]
        rows.append(_row(name, runs))
    return rows


def _checked(path: Path) -> Path:
    """The path of a person's clips, all of which can be read and judged."""
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        missing = {"rate", *(f"class{label}" for label in CLASSES)} - set(file.files)
        if missing:
            raise NotThisLayoutError(f"it holds no {min(missing)}")
        rate = float(file["rate"])
        if not rate >= LEAST_RATE:
            raise NotThisLayoutError(f"its rate is {rate:g} Hz; at least {LEAST_RATE} are needed")
        for label in CLASSES:
            _check_clip(f"class{label}", file[f"class{label}"], rate)
    return path


def _check_clip(name: str, clip: NDArray[np.float32], rate: float) -> None:
    if clip.ndim != 2 or len(clip) != len(LEADS):
        raise NotThisLayoutError(f"{name} has the shape {clip.shape}, not ({len(LEADS)}, samples)")
    if clip.shape[1] < LEAST_S * rate:
        seconds = clip.shape[1] / rate
        raise NotThisLayoutError(f"{name} lasts {seconds:.1f} s; at least {LEAST_S} are needed")
    if not np.isfinite(clip).all():
        raise NotThisLayoutError(f"{name} has values that are not finite")


def session_of(path: Path, order: int) -> Recording:
    """One person's clips in an order, as one block."""
    with np.load(path, allow_pickle=False) as file:
        rate = float(file["rate"])
        clips = {label: _at_rate(file[f"class{label}"], rate) for label in CLASSES}
    labels = [int(label) for label in np.random.default_rng(order).permutation(list(CLASSES))]
    pause = PAUSE_S * RATE
    parts = [np.repeat(clips[labels[0]][:1], pause, axis=0)]
    triggers = [(0, SESSION_START), (10, BLOCK_START)]
    at = pause
    for label in labels:
        clip = clips[label]
        end = at + len(clip) - 1
        triggers += [(at - RATE // 10, FIRST_CLIP[label]), (at, TRIAL_START), (end, TRIAL_END)]
        parts += [clip, np.repeat(clip[-1:], pause, axis=0)]
        at += len(clip) + pause
    triggers.append((at - 1, BLOCK_END))
    leads = tuple(Lead(name) for name in LEADS)
    block = ArrayBlock(np.concatenate(parts), tuple(triggers))
    return Recording(path.stem, float(RATE), leads, [block])


def _at_rate(clip: NDArray[np.float32], rate: float) -> NDArray[np.float32]:
    """(leads, samples) -> (samples, leads) at the track's rate."""
    first = clip[:, :1].astype(np.float64)
    ratio = Fraction(RATE / rate).limit_denominator(1000)
    resampled = resample_poly(clip - first, ratio.numerator, ratio.denominator, axis=1) + first
    return np.ascontiguousarray(resampled.T, dtype=np.float32)


def _left_out(
    paths: list[Path], people: list[EmotionPerson], number: int, make: Make
) -> list[OfflineRun]:
    decoder = make([*people[:number], *people[number + 1 :]])
    sessions = [session_of(paths[number], order) for order in range(1, ORDERS + 1)]
    return [run_offline("emotion", decoder, [session]) for session in sessions]


def _row(name: str, runs: list[list[OfflineRun]]) -> Row:
    scores = [float(np.mean([outcome.score for outcome in person])) for person in runs]
    outcomes = [outcome for person in runs for outcome in person]
    return row_of(
        scores,
        mean,
        "people",
        track="emotion",
        data=f"{len(runs)} people",
        method=name,
        ours=name == "emotion-de",
        measure="track score (share right of 9)",
        n=len(runs) * ORDERS * len(CLASSES),
        compute_s=np.concatenate([outcome.compute_s for outcome in outcomes]).tolist(),
        note="one clip a class: to recognise the clip is to recognise the class; chance is 0.111",
    )
