"""A head: how strongly each lead sees a source inside it.

A conducting sphere on whose surface the leads lie, current dipoles inside. That the skull blurs is
taken into account as Ary, Klein and Fender (1981) showed: a dipole in a sphere of three shells
looks like one that lies deeper (about 0.6 of its eccentricity) in a sphere of one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.synthetic.positions import EYES_M, POSITIONS_M, position_of

CENTRE_M = np.array([-0.0008, 0.0154, 0.0447])  # of the sphere that fits the cap's positions best
CORTEX = 0.55  # eccentricity of the cortex, after the skull's correction; the scalp's is 1
DEEP = 0.35

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Head:
    """One person under one cap.

    leads: names; reference: the leads whose mean is subtracted from all.
    tilt: rotation matrix by which the cap sits askew.
    """

    leads: tuple[str, ...]
    reference: tuple[str, ...]
    tilt: Vectors

    def field(self, places: Vectors, moments: Vectors) -> Vectors:
        """(sources, leads): what dipoles at places (of a unit sphere) give at each lead."""
        raw = potential(places, moments, self._directions(self.leads))
        raw -= potential(places, moments, self._directions(self.reference)).mean(1, keepdims=True)
        return np.where(self._on_head(), raw, 0)

    def area(
        self, lead: str, rng: np.random.Generator, depth: float = CORTEX, spread: float = 0.06
    ) -> Vectors:
        """(leads,): a source beneath a lead, moved a little by chance; 1 where it is seen best.

        That is before the reference is subtracted: an amplitude means the same under any.
        """
        direction = _unit(_direction(lead) + rng.normal(0, spread, 3))
        moment = _unit(direction + rng.normal(0, 2 * spread, 3))[None]
        place = depth * direction[None]
        peak = potential(place, moment, _all_directions()).max()
        row: Vectors = self.field(place, moment)[0] / peak
        return row

    def eyes(self, moment: tuple[float, float, float], unit_lead: str) -> Vectors:
        """(leads,): the eyes' dipoles turned alike; |1| at unit_lead before the reference."""
        direction = np.array(moment)
        row = _eye_potential(self.leads, direction)
        row = row - _eye_potential(self.reference, direction).mean()
        row = row / abs(_eye_potential((unit_lead,), direction)[0])
        return np.where(self._on_head(), row, 0)

    def _directions(self, leads: tuple[str, ...]) -> Vectors:
        places = [position_of(lead) for lead in leads]
        points = np.array([_unit(p - CENTRE_M) if p is not None else [0, 0, 1] for p in places])
        return points @ self.tilt.T

    def _on_head(self) -> NDArray[np.bool_]:
        return np.array([position_of(lead) is not None for lead in self.leads])


def wear(
    leads: tuple[str, ...],
    reference: tuple[str, ...],
    rng: np.random.Generator,
    askew_rad: float = 0.04,
) -> Head:
    """Put the cap on: it never sits quite the same."""
    x, y, z = rng.normal(0, askew_rad, 3)
    turn_x = np.array([[1, 0, 0], [0, np.cos(x), -np.sin(x)], [0, np.sin(x), np.cos(x)]])
    turn_y = np.array([[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]])
    turn_z = np.array([[np.cos(z), -np.sin(z), 0], [np.sin(z), np.cos(z), 0], [0, 0, 1]])
    return Head(leads, reference, turn_x @ turn_y @ turn_z)


def potential(places: Vectors, moments: Vectors, points: Vectors) -> Vectors:
    """(sources, points): dipoles in a homogeneous unit sphere, seen on its surface; not scaled.

    Mosher, Leahy and Lewis (1999), EEG and MEG: forward solutions for inverse methods, eq. 22-24.
    """
    q = places[:, None]
    r = points[None]
    d = np.linalg.norm(r - q, axis=2)
    q_squared = np.sum(q**2, axis=2)
    r_dot_q = np.sum(r * q, axis=2)
    f = d * (d + 1 - r_dot_q)
    c1 = (2 * (r_dot_q - q_squared) / d**3 + 1 / d - 1) / q_squared
    c2 = (2 / d**3 + (d + 1) / f) / q_squared
    along_q = np.sum(q * moments[:, None], axis=2)
    along_r = np.sum(r * moments[:, None], axis=2)
    out: Vectors = (c1 - c2 * r_dot_q) * along_q + c2 * q_squared * along_r
    return out


def scattered(rng: np.random.Generator, count: int) -> tuple[Vectors, Vectors]:
    """Places and moments of sources all over the cortex, from the brow to the nape."""
    directions = rng.normal(0, 1, (4 * count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    directions = directions[directions[:, 2] > -0.35][:count]
    moments = directions + rng.normal(0, 0.6, directions.shape)
    return CORTEX * directions, moments / np.linalg.norm(moments, axis=1, keepdims=True)


def _eye_potential(leads: tuple[str, ...], moment: Vectors) -> Vectors:
    far = (0.0, -10.0, 0.0)  # where a lead that is not on the head sees nothing of the eyes
    points = np.array([position_of(lead) or far for lead in leads])
    seen = np.zeros(len(points))
    for eye in EYES_M:
        away = points - np.array(eye)
        seen += away @ moment / np.linalg.norm(away, axis=1) ** 3
    return seen


def _all_directions() -> Vectors:
    return np.array([_unit(np.array(p) - CENTRE_M) for p in POSITIONS_M.values()])


def _direction(lead: str) -> Vectors:
    return _unit(np.array(POSITIONS_M[lead]) - CENTRE_M)


def _unit(vector: Vectors) -> Vectors:
    length = np.linalg.norm(vector)
    out: Vectors = vector / length
    return out
