"""Synthetic recordings: people who never lived, in every track's exact format, from a seed.

`synthetic:erp?subjects=2&seed=7&difficulty=0.5&set=test` names some; docs/synthetic.md tells more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bci_stream.errors import SourceError
from replay.recording import Recording
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
