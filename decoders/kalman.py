"""A Kalman filter for each joint: how a limb moves is known, so an estimate is smoothed.

A joint's state is its angle and velocity. Dynamics and noise are learned from recorded movement;
the gain is the steady one, so a step is a few small products.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_discrete_are

from decoders.filters import Array

JITTER = 1e-6
SEEN = np.array([[1.0, 0.0]])
"""Of a state only the angle is seen."""


@dataclass(frozen=True)
class Kalman:
    """move (joints, 2, 2): one row later; gain (joints, 2); in standard units."""

    move: Array
    gain: Array

    @classmethod
    def learn(cls, truth: Array, error: Array) -> "Kalman":
        """truth (rows, joints): recorded movement; error (joints,): variance of what is smoothed."""
        learned = [_learn(angle, float(noise)) for angle, noise in zip(truth.T, error, strict=True)]
        return cls(np.array([move for move, _ in learned]), np.array([gain for _, gain in learned]))

    @classmethod
    def none(cls, joints: int) -> "Kalman":
        """Believes what it sees."""
        return cls(np.zeros((joints, 2, 2)), np.tile([1.0, 0.0], (joints, 1)))

    def start(self, first: Array) -> Array:
        """The state (joints, 2) at a first estimate: it stands still there."""
        return np.column_stack([first, np.zeros_like(first)])

    def step(self, state: Array, seen: Array) -> Array:
        """The next row's state, of the state before and what is seen of the angles."""
        moved = (self.move @ state[..., None])[..., 0]
        return np.asarray(moved + self.gain * (seen - moved[:, 0])[:, None])

    def smooth(self, seen: Array) -> Array:
        """A whole trace (rows, joints), row by row."""
        state = self.start(seen[0])
        rows = np.empty_like(seen)
        for number, row in enumerate(seen):
            state = self.step(state, row)
            rows[number] = state[:, 0]
        return rows


def _learn(angle: Array, noise: float) -> tuple[Array, Array]:
    states = np.column_stack([angle[1:], np.diff(angle)])
    before, after = states[:-1], states[1:]
    ridge = JITTER * len(before) * np.eye(2)
    move: Array = np.asarray(np.linalg.solve(before.T @ before + ridge, before.T @ after).T, float)
    rest = after - before @ move.T
    wander = rest.T @ rest / len(rest) + JITTER * np.eye(2)
    spread = solve_discrete_are(move.T, SEEN.T, wander, np.array([[noise + JITTER]]))
    return move, np.asarray(spread[:, 0] / (spread[0, 0] + noise + JITTER))
