"""Head model: how strongly each lead records a source inside the head.

Current dipoles in a homogeneous conducting sphere with the leads on its surface. The skull's blur is
approximated as by Ary, Klein and Fender (1981): a dipole in a sphere of three shells looks like a
deeper one (about 0.6 of its eccentricity) in a single sphere.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracks.common.leads import OLD_NAMES

# fmt: off
POSITIONS_M: dict[str, tuple[float, float, float]] = {
    "Fpz": (-0.0013, 0.1191, 0.0329), "Fp1": (-0.0309, 0.1146, 0.0279),
    "Fp2": (0.0284, 0.1153, 0.0277), "AF3": (-0.0352, 0.1091, 0.0564),
    "AF4": (0.0342, 0.1098, 0.0571), "AF7": (-0.0564, 0.0992, 0.0251),
    "AF8": (0.0542, 0.0998, 0.0249), "Fz": (-0.0012, 0.0933, 0.1026),
    "F1": (-0.0290, 0.0914, 0.0966), "F2": (0.0280, 0.0919, 0.0958),
    "F3": (-0.0518, 0.0867, 0.0787), "F4": (0.0503, 0.0874, 0.0773),
    "F5": (-0.0661, 0.0802, 0.0538), "F6": (0.0663, 0.0815, 0.0531),
    "F7": (-0.0719, 0.0731, 0.0258), "F8": (0.0714, 0.0745, 0.0251),
    "FCz": (-0.0013, 0.0635, 0.1266), "FC1": (-0.0357, 0.0617, 0.1180),
    "FC2": (0.0331, 0.0618, 0.1168), "FC3": (-0.0619, 0.0571, 0.0938),
    "FC4": (0.0606, 0.0577, 0.0938), "FC5": (-0.0789, 0.0514, 0.0630),
    "FC6": (0.0778, 0.0521, 0.0629), "FT7": (-0.0825, 0.0448, 0.0277),
    "FT8": (0.0801, 0.0456, 0.0274), "Cz": (-0.0014, 0.0276, 0.1402),
    "C1": (-0.0379, 0.0263, 0.1298), "C2": (0.0359, 0.0264, 0.1284),
    "C3": (-0.0671, 0.0234, 0.1045), "C4": (0.0653, 0.0236, 0.1037),
    "C5": (-0.0821, 0.0193, 0.0695), "C6": (0.0817, 0.0197, 0.0695),
    "T7": (-0.0860, 0.0149, 0.0312), "T8": (0.0833, 0.0153, 0.0310),
    "CP1": (-0.0374, -0.0108, 0.1334), "CP2": (0.0365, -0.0109, 0.1328),
    "CP3": (-0.0655, -0.0119, 0.1078), "CP4": (0.0647, -0.0120, 0.1077),
    "CP5": (-0.0815, -0.0133, 0.0731), "CP6": (0.0814, -0.0135, 0.0734),
    "TP7": (-0.0868, -0.0150, 0.0352), "TP8": (0.0836, -0.0151, 0.0351),
    "Pz": (-0.0017, -0.0452, 0.1267), "P3": (-0.0550, -0.0442, 0.0999),
    "P4": (0.0536, -0.0443, 0.1005), "P5": (-0.0693, -0.0432, 0.0723),
    "P6": (0.0659, -0.0433, 0.0719), "P7": (-0.0745, -0.0421, 0.0413),
    "P8": (0.0710, -0.0423, 0.0412), "POz": (-0.0019, -0.0681, 0.0959),
    "PO3": (-0.0386, -0.0674, 0.0824), "PO4": (0.0347, -0.0677, 0.0816),
    "PO5": (-0.0505, -0.0667, 0.0668), "PO6": (0.0477, -0.0671, 0.0669),
    "PO7": (-0.0569, -0.0659, 0.0479), "PO8": (0.0536, -0.0664, 0.0479),
    "Oz": (-0.0021, -0.0828, 0.0607), "O1": (-0.0316, -0.0806, 0.0548),
    "O2": (0.0277, -0.0805, 0.0547), "CPz": (-0.0015, -0.0105, 0.1415),
    "A1": (-0.0879, 0.0026, -0.0269), "A2": (0.0839, 0.0020, -0.0269),
    "HEOR": (0.0610, 0.0800, -0.0030), "HEOL": (-0.0610, 0.0800, -0.0030),
    "VEOU": (-0.0330, 0.1090, 0.0210), "VEOL": (-0.0330, 0.1020, -0.0300),
}
# fmt: on

EYES_M = ((-0.0330, 0.0880, -0.0030), (0.0330, 0.0880, -0.0030))

_BY_UPPER = {name.upper(): position for name, position in POSITIONS_M.items()}


def position_of(lead: str) -> tuple[float, float, float] | None:
    """The position of a lead in metres, by its name in any case; None if it is not on the head."""
    return _BY_UPPER.get(OLD_NAMES.get(lead, lead).upper())


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


def fit_cap(
    leads: tuple[str, ...],
    reference: tuple[str, ...],
    rng: np.random.Generator,
    askew_rad: float = 0.04,
) -> Head:
    """A head with its cap rotated by a small random angle, as from one session to the next."""
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
