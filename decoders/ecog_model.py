"""An ECoG model: for each subject its leads, weights from features to angles, and dynamics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders.ecog_features import FEATURES_A_LEAD
from decoders.kalman import Kalman
from decoders.model import Model, ModelError
from decoders.moments import Scale
from decoders.ridge import Ridge
from tracks.angles import JOINTS

ARRAYS = ("weights", "x_mean", "x_sd", "y_mean", "y_sd", "move", "gain")


@dataclass(frozen=True)
class SubjectModel:
    """leads: the names of those that were chosen, in the order of the weights."""

    subject: str
    leads: tuple[str, ...]
    ridge: Ridge
    kalman: Kalman

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        scale = self.ridge.scale
        values = (
            self.ridge.weights,
            scale.x_mean,
            scale.x_sd,
            scale.y_mean,
            scale.y_sd,
            self.kalman.move,
            self.kalman.gain,
        )
        return dict(zip(ARRAYS, values, strict=True))


def pack(subjects: Sequence[SubjectModel], teacher: str) -> Model:
    """One model of all subjects; the teacher's serves whoever was never seen."""
    arrays = {
        f"{number}.{name}": value
        for number, subject in enumerate(subjects)
        for name, value in subject.arrays().items()
    }
    people = [{"subject": s.subject, "leads": list(s.leads)} for s in subjects]
    return Model("ecog", "ecog-ridge", arrays, {"people": people, "teacher": teacher})


def unpack(model: Model) -> tuple[dict[str, SubjectModel], str]:
    """The subjects of a model by name, and the teacher's name."""
    people, teacher = model.settings.get("people"), model.settings.get("teacher")
    if not isinstance(people, list) or not people:
        raise ModelError("model of ecog: it names no subject. Train it again.")
    subjects = [_subject(model, number, person) for number, person in enumerate(people)]
    by_name = {subject.subject: subject for subject in subjects}
    if teacher not in by_name:
        raise ModelError(f"model of ecog: its teacher {teacher!r} is missing. Train it again.")
    return by_name, str(teacher)


def _subject(model: Model, number: int, person: object) -> SubjectModel:
    if not isinstance(person, Mapping) or not isinstance(person.get("leads"), list):
        raise ModelError(f"model of ecog: subject {number} has no leads. Train it again.")
    leads = tuple(str(name) for name in person["leads"])
    weights, x_mean, x_sd, y_mean, y_sd, move, gain = (
        model.array(f"{number}.{name}") for name in ARRAYS
    )
    expected = (len(leads) * FEATURES_A_LEAD, len(JOINTS))
    moves = move.shape == (len(JOINTS), 2, 2) and gain.shape == (len(JOINTS), 2)
    scaled = x_mean.shape == expected[:1] and y_mean.shape == expected[1:]
    if weights.shape != expected or not scaled or not moves:
        raise ModelError(
            f"model of ecog: weights of shape {weights.shape} (wanted {expected}), or a Kalman filter "
            f"of shape {move.shape}, that this version can't use. Train it again."
        )
    ridge = Ridge(weights, Scale(x_mean, x_sd, y_mean, y_sd))
    return SubjectModel(str(person.get("subject", "")), leads, ridge, Kalman(move, gain))
