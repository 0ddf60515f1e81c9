"""SSVEP: the visual cortex follows a flickering light, phase-locked, after a latency of its own."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from replay.synthetic.activity import Activity
from replay.synthetic.head import Vectors
from replay.synthetic.scalp import Scalp
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import Event
from tracks.turing import SSVEP_HZ

UNATTENDED = 0.1  # all lights flicker together; those at the side are seen this much
AREAS = {"Oz": 0.5, "POz": 0.3, "O1": 0.2, "O2": 0.2}  # together about 1 at Oz
BUILD_UP_S = 0.2


@dataclass(frozen=True)
class VisualCortex:
    """harmonics_uv: amplitude at Oz of the flicker's frequency and its multiples."""

    latency_s: float
    harmonics_uv: tuple[float, ...]
    lapse: float

    @staticmethod
    def of(subject: Subject) -> "VisualCortex":
        person = subject.trait("visual cortex")
        # At difficulty 0.5 some 4 to 13 dB above its neighbours at the best lead, as recorded people.
        first_uv = subject.between(2.6, 0.8) * np.exp(person.normal(0, 0.2))
        shares = (1.0, person.uniform(0.3, 0.5), person.uniform(0.1, 0.2))
        return VisualCortex(
            latency_s=0.135 + subject.between(0.006, 0.02) * person.uniform(-1, 1),
            harmonics_uv=tuple(first_uv * share for share in shares),
            lapse=subject.between(0.02, 0.08),
        )

    def follow(self, t: Vectors, strengths: Mapping[float, float]) -> Vectors:
        """The response to lights sin(2 pi f t); strengths: f in Hz to how well it is seen."""
        seen_s = t - self.latency_s
        out = np.zeros(len(t))
        for f, strength in strengths.items():
            for harmonic, level_uv in enumerate(self.harmonics_uv, 1):
                out += strength * level_uv * np.sin(2 * np.pi * harmonic * f * seen_s)
        return out * np.clip(seen_s / BUILD_UP_S, 0, 1)


def responses(scalp: Scalp, block: int, n: int, watched: Iterable[Event]) -> list[Activity]:
    """watched: when which light is looked at; all four begin to flicker then, with phase 0."""
    cortex = VisualCortex.of(scalp.subject)
    rng = scalp.subject.chance("ssvep", block)
    signal = np.zeros(n, np.float32)
    for event in watched:
        strengths = dict.fromkeys(SSVEP_HZ.values(), UNATTENDED)
        if rng.random() > cortex.lapse:
            strengths[SSVEP_HZ[event.label]] = rng.normal(1, 0.15)
        t = np.arange(event.stop - event.start) / scalp.rate
        signal[event.start : event.stop] = cortex.follow(t, strengths)
    person = scalp.subject.trait("visual areas")
    return [
        Activity(scalp.head.area(lead, person, spread=0.03), share * signal)
        for lead, share in AREAS.items()
    ]
