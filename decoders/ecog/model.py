"""The ecog model: per subject the leads, weights from features to angles, and a Kalman filter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_are

from decoders.dsp import Array
from decoders.ecog.features import FEATURES_A_LEAD
from decoders.ecog.ridge import Ridge, Scale
from decoders.model import Model
from tracks.common.angles import JOINTS

JITTER = 1e-6
OBSERVED = np.array([[1.0, 0.0]])
"""Only the angle of a state is observed."""


@dataclass(frozen=True)
class Kalman:
    """States are (angle, change per row). move (joints, 2, 2), gain (joints, 2); standardised."""

    move: Array
    gain: Array

    @classmethod
    def learn(cls, truth: Array, error: Array) -> "Kalman":
        """truth (rows, joints): recorded movement; error (joints,): variance of the estimates."""
        learned = [_learn(angle, float(noise)) for angle, noise in zip(truth.T, error, strict=True)]
        return cls(np.array([move for move, _ in learned]), np.array([gain for _, gain in learned]))

    @classmethod
    def none(cls, joints: int) -> "Kalman":
        """A filter that returns its input."""
        return cls(np.zeros((joints, 2, 2)), np.tile([1.0, 0.0], (joints, 1)))

    def smooth(self, observed: Array, state: Array | None = None) -> tuple[Array, Array | None]:
        """observed (rows, joints) -> smoothed angles (rows, joints), and the state after them.

        state (joints, 2): as returned by the call before; None: at rest at the first row.
        """
        angles = np.empty_like(observed)
        for number, row in enumerate(observed):
            if state is None:
                state = np.column_stack([row, np.zeros_like(row)])
            moved = (self.move @ state[..., None])[..., 0]
            state = np.asarray(moved + self.gain * (row - moved[:, 0])[:, None])
            angles[number] = state[:, 0]
        return angles, state


def _learn(angle: Array, noise: float) -> tuple[Array, Array]:
    states = np.column_stack([angle[1:], np.diff(angle)])
    before, after = states[:-1], states[1:]
    ridge = JITTER * len(before) * np.eye(2)
    move: Array = np.asarray(np.linalg.solve(before.T @ before + ridge, before.T @ after).T, float)
    rest = after - before @ move.T
    noise_of_state = rest.T @ rest / len(rest) + JITTER * np.eye(2)
    spread = solve_discrete_are(move.T, OBSERVED.T, noise_of_state, np.array([[noise + JITTER]]))
    return move, np.asarray(spread[:, 0] / (spread[0, 0] + noise + JITTER))


ARRAYS = ("weights", "x_mean", "x_sd", "y_mean", "y_sd", "move", "gain")


@dataclass(frozen=True)
class SubjectModel:
    """leads: names of the chosen leads, in the order of the weights."""

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
    """One model file of all subjects; the teacher's weights are used for unknown subjects."""
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
        raise model.broken("it has no subjects")
    subjects = [_subject(model, number, person) for number, person in enumerate(people)]
    by_name = {subject.subject: subject for subject in subjects}
    if not isinstance(teacher, str) or teacher not in by_name:
        raise model.broken(f"its teacher {teacher!r:.60} is not among its subjects")
    return by_name, teacher


def _subject(model: Model, number: int, person: object) -> SubjectModel:
    if not isinstance(person, Mapping) or not _are_names(person.get("leads")):
        raise model.broken(f"subject {number} has no leads")
    leads = tuple(person["leads"])
    features, joints = len(leads) * FEATURES_A_LEAD, len(JOINTS)
    scale = Scale(
        model.array(f"{number}.x_mean", (features,)),
        model.array(f"{number}.x_sd", (features,), endless=True),
        model.array(f"{number}.y_mean", (joints,)),
        model.array(f"{number}.y_sd", (joints,), endless=True),
    )
    kalman = Kalman(
        model.array(f"{number}.move", (joints, 2, 2)), model.array(f"{number}.gain", (joints, 2))
    )
    ridge = Ridge(model.array(f"{number}.weights", (features, joints)), scale)
    return SubjectModel(str(person.get("subject", "")), leads, ridge, kalman)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)
