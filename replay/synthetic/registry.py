"""Synthetic recordings: people who never lived, in every track's exact format, from a seed.

`synthetic:erp?subjects=2&seed=7&difficulty=0.5&set=test` names some; docs/synthetic.md tells more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.files import atomic_write
from replay.model.recording import Recording
from replay.synthetic import ecog, emotion, erp, mi, turing
from replay.synthetic.params import Number, common, read_params
from replay.synthetic.source import SyntheticSource
from replay.synthetic.subject import Subject

T = TypeVar("T")

__all__ = ["SETS", "SyntheticSource", "open_synthetic"]


@dataclass(frozen=True)
class RecordingSet:
    """One of a track's sets of recordings.

    first_subject: sets that share numbers share people; where the rule document tests on people who
        were not trained on, they begin at another number.
    """

    record: Callable[[Subject, Mapping[str, float]], Recording]
    params: Mapping[str, Number]
    subjects: int = 2
    first_subject: int = 1


SETS: dict[str, dict[str, RecordingSet]] = {
    "mi": {
        "train": RecordingSet(mi.record, mi.PARAMS),
        "test": RecordingSet(mi.record, mi.PARAMS),
    },
    "turing": {
        "train": RecordingSet(turing.record, turing.TRAIN_PARAMS),
        "test": RecordingSet(turing.record, turing.TEST_PARAMS),
    },
    "emotion": {
        "train": RecordingSet(emotion.record, emotion.PARAMS),
        "test": RecordingSet(emotion.record, emotion.PARAMS, first_subject=81),
    },
    "ecog": {
        "train": RecordingSet(ecog.record, ecog.TRAIN_PARAMS, subjects=1),
        "calibration": RecordingSet(ecog.record, ecog.CALIBRATION_PARAMS, first_subject=2),
        "test": RecordingSet(ecog.record, ecog.TEST_PARAMS, first_subject=2),
    },
    "erp": {
        "train": RecordingSet(erp.record, erp.PARAMS),
        "test": RecordingSet(erp.record, erp.PARAMS, first_subject=101),
    },
}


def open_synthetic(track: str, params: Mapping[str, str]) -> SyntheticSource:
    """The source that `synthetic:track?params` names; `set` is `test` where nothing is said."""
    sets = _choose("synthetic: the track", track, SETS)
    name = params.get("set", "test")
    chosen = _choose(f"synthetic:{track}: set", name, sets)
    known = {**common(chosen.subjects, chosen.first_subject), **chosen.params}
    given = {key: text for key, text in params.items() if key != "set"}
    numbers = read_params(f"synthetic:{track}?set={name}", known, given)
    first, count = int(numbers["first_subject"]), int(numbers["subjects"])
    people = tuple(
        Subject(track, name, number, int(numbers["seed"]), numbers["difficulty"])
        for number in range(first, first + count)
    )
    query = "&".join(f"{key}={text}" for key, text in params.items())
    uri = f"synthetic:{track}" + (f"?{query}" if query else "")
    return SyntheticSource(uri, track, name, people, lambda one: chosen.record(one, numbers))


def _choose(what: str, name: str, choices: Mapping[str, T]) -> T:
    if name not in choices:
        raise SourceError(f"{what} must be one of {', '.join(choices)}; got {name!r}")
    return choices[name]


def write_recordings(source: SyntheticSource, out_dir: Path) -> list[Path]:
    """One .npz a subject; a file appears under its name only when it is whole."""
    out_dir.mkdir(parents=True, exist_ok=True)
    return [_write(source, session, out_dir) for session in source.sessions()]


def _write(source: SyntheticSource, session: Recording, out_dir: Path) -> Path:
    path = out_dir / f"{source.track}_{source.set}_{session.subject}.npz"
    lengths = [block.n_samples for block in session.blocks]
    arrays: dict[str, Any] = {
        "data": _labelled(session, lengths),
        "rate": np.float64(session.rate),
        "leads": np.array([lead.name for lead in session.leads]),
        "kinds": np.array([lead.kind for lead in session.leads]),
        "block_starts": np.cumsum([0, *lengths[:-1]]),
        "track": np.array(source.track),
        "subject": np.array(session.subject),
        "set": np.array(source.set),
    }
    if session.angles is not None:
        arrays["angles"] = session.angles
    atomic_write(path, lambda file: np.savez(file, **arrays))
    return path


def _labelled(
    session: Recording, lengths: list[int]
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """(leads + 1, n): TRIGGER, with its labels, is the last row."""
    data = np.zeros((len(session.leads) + 1, sum(lengths)), np.float32)
    start = 0
    for block in session.blocks:
        data[:-1, start : start + block.n_samples] = block.read(0, block.n_samples).T
        for sample, code in block.triggers:
            data[-1, start + sample] = code
        start += block.n_samples
    return data
