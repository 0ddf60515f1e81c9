"""Affect: how an emotion shifts the power of the brain's rhythms.

Every person shows a pattern that all share (what cross-subject decoders live on) and one of their
own; each clip adds what it looks and sounds like. The feeling grows during a clip, swells and ebbs,
and outlasts it for a while.
"""

from collections.abc import Sequence

import numpy as np

from bci_stream.packet import FloatArray
from replay.synthetic.activity import Activity
from replay.synthetic.head import Vectors
from replay.synthetic.noise import band, noise, power_law
from replay.synthetic.scalp import Scalp, alpha_hz
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import Event
from tracks.emotion import CLASSES, CLIPS

REGIONS = ("F3", "F4", "Fz", "T7", "T8", "Cz", "P3", "P4", "O1", "O2")
BANDS = ("theta", "alpha", "beta", "gamma")
LEVELS_UV = {"theta": 2.6, "alpha": 4.0, "beta": 2.2, "gamma": 1.3}
AXES: tuple[tuple[float, ...], ...] = (
    # pleasure, arousal, approach, warmth
    (-1.0, 0.9, 0.8, -0.6),  # anger
    (-0.9, 0.4, -0.9, -0.5),  # disgust
    (-0.9, 1.0, -0.6, 0.1),  # fear
    (-0.8, -0.7, -0.2, 0.7),  # sadness
    (0.0, -0.9, 0.0, -0.3),  # neutral
    (0.9, 0.6, 0.1, -0.4),  # amusement
    (0.6, 0.5, 0.9, 0.4),  # inspiration
    (1.0, 0.8, 0.5, 0.2),  # joy
    (0.7, -0.5, 0.2, 1.0),  # tenderness
)
# Decibels a unit of each axis adds, per band over the REGIONS (in their order).
SHARED_DB: dict[str, tuple[tuple[float, ...], ...]] = {
    "theta": (
        (0.2, 0.2, 0.9, 0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0),
        (0.3, 0.3, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2, 0.4, 0.4),
        (-0.2, 0.2, -0.4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        (0.4, 0.4, 0.8, 0.5, 0.5, 0.4, 0.3, 0.3, 0.0, 0.0),
    ),
    "alpha": (
        (-0.6, 0.6, 0.0, -0.3, 0.3, 0.0, 0.2, 0.2, 0.3, 0.3),
        (-0.5, -0.5, -0.4, -0.3, -0.3, -0.4, -1.1, -1.1, -1.3, -1.3),
        (-0.9, 0.9, 0.0, -0.2, 0.2, -0.3, 0.0, 0.0, 0.0, 0.0),
        (0.3, 0.3, 0.4, 0.1, 0.1, 0.3, 0.6, 0.9, 0.2, 0.2),
    ),
    "beta": (
        (0.4, -0.2, 0.0, 0.7, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0),
        (0.3, 0.5, 0.2, 0.9, 0.9, 0.2, 0.2, 0.2, 0.1, 0.1),
        (0.6, -0.4, 0.2, 0.4, -0.2, 0.5, 0.0, 0.0, 0.0, 0.0),
        (-0.3, -0.3, -0.2, -0.5, -0.4, -0.2, 0.0, 0.3, 0.0, 0.0),
    ),
    "gamma": (
        (0.2, 0.0, 0.0, 1.0, 0.8, 0.0, 0.0, 0.0, -0.2, -0.2),
        (0.4, 0.6, 0.2, 1.1, 1.2, 0.1, 0.2, 0.3, 0.4, 0.4),
        (0.5, -0.2, 0.1, 0.3, -0.3, 0.3, 0.1, 0.0, -0.4, -0.4),
        (-0.2, -0.4, -0.1, -0.7, -0.6, -0.1, 0.2, 0.4, -0.3, -0.3),
    ),
}


def shared_db() -> Vectors:
    """(classes, bands, regions): the part of the pattern that all people have."""
    per_axis = np.array([SHARED_DB[name] for name in BANDS])
    out: Vectors = np.einsum("ca,bar->cbr", np.array(AXES), per_axis)
    return out


def pattern_db(subject: Subject) -> Vectors:
    """(classes, bands, regions): the shared part, as strong as in this person, and their own."""
    person = subject.trait("affect")
    strength = subject.between(2.2, 0.5) * np.exp(person.normal(0, 0.15))
    own = person.normal(0, subject.between(0.5, 1.0), (len(CLASSES), len(BANDS), len(REGIONS)))
    out: Vectors = strength * shared_db() + own
    return out


def rhythms(
    scalp: Scalp, block: int, n: int, shown: Sequence[Event], pace: float
) -> list[Activity]:
    """shown: when which clip is seen; pace: by how much all that is slow is shortened."""
    rng = scalp.subject.chance("affect", block)
    decibels = _decibels(scalp.subject, rng, n, scalp.rate, shown, pace)
    person = scalp.subject.trait("affect areas")
    rows = [scalp.head.area(region, person, spread=0.04) for region in REGIONS]
    spectra = (band(5.5, 1.2), band(alpha_hz(scalp.subject), 1.0), band(20, 4), band(37, 7))
    out = []
    for number, (name, spectrum) in enumerate(zip(BANDS, spectra, strict=True)):
        waves = noise(rng, len(REGIONS), n, scalp.rate, spectrum)
        levels_uv = LEVELS_UV[name] * np.exp(scalp.subject.trait(name).normal(0, 0.2, len(REGIONS)))
        for region, row in enumerate(rows):
            gain = 10 ** (decibels[number, region] / 20)
            waves[region] *= levels_uv[region] * _stretched(gain, n)
            out.append(Activity(row, waves[region]))
    return out


def _decibels(
    subject: Subject, rng: np.random.Generator, n: int, rate: float,
    shown: Sequence[Event], pace: float,
) -> Vectors:  # fmt: skip
    """(bands, regions, steps of 0.1 s): the power's course over the block."""
    steps = int(np.ceil(n / rate * 10)) + 1
    t_s = np.arange(steps) / 10
    patterns = pattern_db(subject)
    wander = noise(rng, len(BANDS) * len(REGIONS), steps, 10, power_law(2, 0.01))
    out: Vectors = 0.8 * wander.reshape(len(BANDS), len(REGIONS), steps).astype(np.float64)
    for clip in shown:
        feeling = _feeling(rng, t_s - clip.start / rate, (clip.stop - clip.start) / rate, pace)
        scenery = _clip_db(clip.label) * subject.between(0.4, 0.8)
        out += (patterns[CLIPS[clip.label][1]] + scenery)[..., None] * feeling
    return out


def _feeling(rng: np.random.Generator, t_s: Vectors, length_s: float, pace: float) -> Vectors:
    """0 before the clip, grows to about 1, swells and ebbs, and dies away after its end."""
    grows = 1 - np.exp(-np.clip(t_s, 0, None) / (6 * pace))
    dies = np.exp(-np.clip(t_s - length_s, 0, None) / (8 * pace))
    swell = noise(rng, 1, len(t_s), 10, power_law(2, 0.05 / pace))[0]
    out: Vectors = grows * dies * np.clip(1 + 0.3 * swell, 0, None)
    return out


def _clip_db(clip: int) -> Vectors:
    """What a clip's pictures and sound do to everybody: the same for all seeds."""
    return np.random.default_rng([2020, clip]).normal(0, 1, (len(BANDS), len(REGIONS)))


def _stretched(steps: Vectors, n: int) -> FloatArray:
    places = np.linspace(0, len(steps) - 1, n)
    return np.interp(places, np.arange(len(steps)), steps).astype(np.float32)
