"""A grid: 32 electrodes on the motor cortex, and what they record while the limbs move.

Patches of cortex answer to a part of the stride with high gamma (70-150 Hz) and with a slow local
motor potential; beta is quieter while the animal walks. The patches lie alike in all animals, the
grid a little elsewhere in each.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bci_stream.packet import FloatArray
from replay.synthetic import artefacts
from replay.synthetic.gait import Walk
from replay.synthetic.head import Vectors
from replay.synthetic.noise import band, noise, power_law
from replay.synthetic.subject import Subject
from tracks.leads import ECOG_32

RATE = 1000
ROWS, COLUMNS = 4, 8
SPACING_MM = (5 / (ROWS - 1), 15 / (COLUMNS - 1))
PATCHES = 16
FIELDS = 24  # sources of the background
REACH_MM = {"gamma": 1.1, "slow": 2.0, "background": 3.0}
DELAY_S = 0.03  # the belt moves the limbs: what the cortex shows comes after
BACKGROUND_UV, OWN_UV, GAMMA_UV, BETA_UV, LINE_UV = 40.0, 6.0, 2.5, 10.0, 5.0


@dataclass(frozen=True)
class Grid:
    """One animal's grid."""

    subject: Subject

    @cached_property
    def places_mm(self) -> Vectors:
        """(32, 2): where the channels lie over this animal's cortex, row by row from ch1 on."""
        rows, columns = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
        shift = self.subject.trait("implant").normal(0, 0.7, 2)
        out: Vectors = np.stack([rows * SPACING_MM[0], columns * SPACING_MM[1]], axis=1) + shift
        return out

    @cached_property
    def noisy(self) -> tuple[int, ...]:
        """Channels with a bad contact; there are always some, so it pays to choose."""
        rng = self.subject.trait("bad channels")
        return tuple(int(c) for c in rng.choice(len(ECOG_32), rng.integers(3, 6), replace=False))

    def record(self, block: int, n: int, walk: Walk) -> FloatArray:
        """(n, 32) microvolts."""
        data = self._background(block, n)
        data += self._beta(block, n, walk)
        data += self._slow(n, walk)
        data += self._high_gamma(block, n, walk)
        lines = artefacts.mains(self.subject, ECOG_32, block, n, RATE, LINE_UV)
        for row, signal in lines:
            data += np.outer(signal, row.astype(np.float32))
        self._spoil(block, data)
        data[:, artefacts.flat_leads(self.subject, len(ECOG_32))] = 0
        return data

    def _background(self, block: int, n: int) -> FloatArray:
        weights = self._weights(_scattered("background", FIELDS), "background")
        weights *= BACKGROUND_UV / np.sqrt(np.sum(weights**2, axis=0)).mean()
        rng = self.subject.chance("background", block)
        data: FloatArray = noise(rng, FIELDS, n, RATE, power_law(1.8, 1.0)).T @ weights.astype(
            np.float32
        )
        data += OWN_UV * noise(rng, len(ECOG_32), n, RATE, power_law(1.0, 1.0)).T
        data += 0.8 * rng.standard_normal((n, len(ECOG_32)), np.float32)
        return data

    def _beta(self, block: int, n: int, walk: Walk) -> FloatArray:
        rng = self.subject.chance("beta", block)
        weights = BETA_UV * self._weights(_scattered("beta", 4), "background")
        quiet = 1 - 0.6 * _to_samples(walk.vigour[None], n)
        out: FloatArray = (noise(rng, 4, n, RATE, band(19, 3)) * quiet).T @ weights.astype(
            np.float32
        )
        return out

    def _slow(self, n: int, walk: Walk) -> FloatArray:
        """The local motor potential: follows the stride."""
        level_uv = self.subject.between(12, 2.5)
        weights = level_uv * self._weights(_scattered("slow", PATCHES), "slow")
        person = self.subject.trait("slow tuning")
        turns = 2 * np.pi * (np.arange(PATCHES) / PATCHES + person.normal(0, 0.04, PATCHES))
        course = walk.vigour * np.cos(walk.phase - turns[:, None])
        out: FloatArray = _to_samples(course, n).T @ weights.astype(np.float32)
        return out

    def _high_gamma(self, block: int, n: int, walk: Walk) -> FloatArray:
        """Noise of 70-150 Hz, the stronger the nearer the stride is to what a patch prefers."""
        strength = self.subject.between(1.8, 0.3)
        weights = strength * self._weights(_scattered("gamma", PATCHES), "gamma")
        person = self.subject.trait("gamma tuning")
        turns = 2 * np.pi * (np.arange(PATCHES) * 5 / PATCHES + person.normal(0, 0.04, PATCHES))
        tuned = np.exp(2.0 * (np.cos(walk.phase - turns[:, None]) - 1))
        active = _to_samples(walk.vigour * (0.15 + tuned), n)
        rng = self.subject.chance("high gamma", block)
        out = GAMMA_UV * noise(rng, len(ECOG_32), n, RATE, _broadband).T
        out *= 1 + active.T @ weights.astype(np.float32)
        return out

    def _spoil(self, block: int, data: FloatArray) -> None:
        rng = self.subject.chance("bad contacts", block)
        for channel in self.noisy:
            hiss = noise(rng, 1, len(data), RATE, power_law(0.3, 1.0))[0]
            data[:, channel] = 0.2 * data[:, channel] + 40 * hiss

    def _weights(self, centres_mm: Vectors, reach: str) -> Vectors:
        """(sources, 32): how strongly each channel sees sources that lie there."""
        apart = centres_mm[:, None] - self.places_mm[None]
        out: Vectors = np.exp(-0.5 * np.sum(apart**2, axis=2) / REACH_MM[reach] ** 2)
        return out


def _scattered(what: str, count: int) -> Vectors:
    """(count, 2) millimetres: places on the cortex, evenly strewn and the same in all animals."""
    steps = np.arange(count) + {"background": 0.3, "beta": 0.7, "slow": 0.2, "gamma": 0.5}[what]
    golden = (np.sqrt(5) - 1) / 2
    out: Vectors = np.stack([5 * (steps * golden % 1), 15 * (steps + 0.5) / (count + 1)], axis=1)
    return out


def _broadband(f: Vectors) -> Vectors:
    """High gamma: no peak, but a floor that rises from 60 Hz on and falls like the rest."""
    out: Vectors = (f / 100) ** -0.8 / (1 + np.exp(-(f - 65) / 6)) / (1 + np.exp((f - 200) / 20))
    return out


def _to_samples(courses: Vectors, n: int) -> FloatArray:
    """(k, rows at 200 Hz) to (k, n) at 1000 Hz, later by the delay."""
    at = (np.arange(n) / RATE - DELAY_S) * (RATE / 5)
    rows = np.arange(courses.shape[1])
    return np.stack([np.interp(at, rows, course) for course in courses]).astype(np.float32)
