"""Gait: a treadmill that rests, runs evenly or changes its speed, and the joints that follow."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import signal

from replay.synthetic.head import Vectors
from replay.synthetic.noise import noise, power_law
from replay.synthetic.subject import Subject

ROWS_HZ = 200
REST, STEADY, VARYING = 0, 1, 2
BELT_S = 0.4  # the belt takes about so long to reach a new speed

# joint: (angle at rest, swing, both in degrees; where in the stride it is widest, in turns;
#         share of the second harmonic, and its place)
JOINTS: dict[str, tuple[float, float, float, float, float]] = {
    "sho": (118, 14, 0.05, 0.20, 0.10),
    "elb": (128, 24, 0.17, 0.35, 0.30),
    "wri": (172, 32, 0.30, 0.45, 0.05),
    "mcp": (188, 28, 0.42, 0.40, 0.22),
    "hip": (106, 18, 0.53, 0.15, 0.40),
    "kne": (124, 22, 0.66, 0.40, 0.12),
    "ank": (138, 24, 0.72, 0.35, 0.33),
    "mtp": (196, 30, 0.86, 0.40, 0.02),
}


@dataclass(frozen=True)
class Walk:
    """What the limbs do, in rows at 200 Hz.

    angles: (rows, 8) degrees; phase: of the stride, in radians; vigour: 0 at rest, 1 at full pace.
    """

    angles: Vectors
    phase: Vectors
    vigour: Vectors


def walk(subject: Subject, block: int, rows: int, belt: Sequence[tuple[int, int, int]]) -> Walk:
    """belt: (first row, end row, REST, STEADY or VARYING); at rest where nothing is said."""
    rng = subject.chance("walk", block)
    speed = _speed(rng, rows, belt)
    strides_hz = subject.trait("gait").uniform(0.85, 1.1)
    unsteady = 1 + 0.04 * noise(rng, 1, rows, ROWS_HZ, power_law(2, 0.2))[0]
    phase = 2 * np.pi * np.cumsum(strides_hz * speed * unsteady) / ROWS_HZ
    vigour = 1 - np.exp(-speed / 0.35)
    angles = np.stack([*_angles(subject, phase, vigour)], axis=1)
    angles += 1.2 * noise(rng, len(JOINTS), rows, ROWS_HZ, power_law(2, 0.05)).T  # posture
    angles += rng.normal(0, 0.15, angles.shape)  # the cameras' error
    return Walk(angles, phase, vigour)


def _speed(rng: np.random.Generator, rows: int, belt: Sequence[tuple[int, int, int]]) -> Vectors:
    """Relative to an easy walk."""
    wanted = np.zeros(rows)
    for first, end, kind in belt:
        if kind == STEADY:
            wanted[first:end] = rng.uniform(0.9, 1.1)
        elif kind == VARYING:
            drift = noise(rng, 1, end - first, ROWS_HZ, power_law(3, 0.08))[0]
            wanted[first:end] = np.clip(1.0 + 0.35 * drift, 0.3, 1.8)
    keep = np.exp(-1 / (BELT_S * ROWS_HZ))
    out: Vectors = signal.lfilter([1 - keep], [1, -keep], wanted)
    return out


def _angles(subject: Subject, phase: Vectors, vigour: Vectors) -> list[Vectors]:
    person = subject.trait("joints")
    out = []
    for rest_deg, swing_deg, place, second, second_place in JOINTS.values():
        rest_deg, swing_deg = rest_deg + person.normal(0, 5), swing_deg * person.uniform(0.8, 1.2)
        place, second_place = np.array([place, second_place]) + person.normal(0, 0.02, 2)
        curve = np.cos(phase - 2 * np.pi * place)
        curve += second * np.cos(2 * phase - 2 * np.pi * second_place)
        out.append(rest_deg + swing_deg * vigour * curve)
    return out
