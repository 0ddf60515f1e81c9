"""Motor imagery: rhythms of the motor cortex and their desynchronisation.

Imagining a hand movement weakens mu and beta over the contralateral hand area, imagining the feet
over the vertex; beta rebounds afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from replay.synthetic.head import Vectors
from replay.synthetic.noise import Activity, band, noise, power_law
from replay.synthetic.scalp import Scalp
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import TimelineEvent

LEFT, RIGHT, FEET = 1, 2, 3
AREAS = ("C3", "C4", "Cz")
AFTER_S = 2.0  # how long after its end a trial still shows


@dataclass(frozen=True)
class MotorCortex:
    """A person's own rhythms and how much imagery does to them."""

    mu_hz: float
    beta_hz: float
    mu_uv: float
    beta_uv: float
    depth: float
    same_side: float
    delay_s: float
    lapse: float

    @staticmethod
    def of(subject: Subject) -> "MotorCortex":
        person = subject.person_rng("motor cortex")
        mu_hz = person.normal(11.0, 0.8)
        return MotorCortex(
            mu_hz=mu_hz,
            beta_hz=2 * mu_hz + person.normal(0, 1),
            mu_uv=subject.by_difficulty(4.2, 2.6) * np.exp(person.normal(0, 0.2)),
            beta_uv=subject.by_difficulty(2.0, 1.3) * np.exp(person.normal(0, 0.2)),
            depth=np.clip(
                subject.by_difficulty(0.6, 0.18) * np.exp(person.normal(0, 0.15)), 0, 0.95
            ),
            same_side=person.uniform(0.15, 0.45),
            delay_s=person.uniform(0.2, 0.5),
            lapse=subject.by_difficulty(0.03, 0.15),  # share of trials without imagery
        )

    def effort(self, rng: np.random.Generator) -> float:
        """Strength of the imagery in one trial; 0 where attention lapses."""
        return 0.0 if rng.random() < self.lapse else float(np.clip(rng.normal(1, 0.2), 0, 1.3))

    def fade(self, label: int, area: str) -> float:
        """Share of the rhythm that is lost while `label` is imagined; negative: it grows."""
        shares = {
            LEFT: {"C3": self.same_side, "C4": 1.0, "Cz": 0.15},
            RIGHT: {"C3": 1.0, "C4": self.same_side, "Cz": 0.15},
            FEET: {"C3": -0.25, "C4": -0.25, "Cz": 1.0},
        }
        return self.depth * shares[label][area]


def rhythms(scalp: Scalp, block: int, n: int, imagined: Iterable[TimelineEvent]) -> list[Activity]:
    """Mu and beta of the three areas, while LEFT, RIGHT or FEET are imagined."""
    subject, rate = scalp.subject, scalp.rate
    cortex = MotorCortex.of(subject)
    rng = subject.session_rng("imagery", block)
    mu = noise(rng, len(AREAS), n, rate, band(cortex.mu_hz, 0.9))
    beta = noise(rng, len(AREAS), n, rate, band(cortex.beta_hz, 2.0))
    moods = noise(rng, 2 * len(AREAS), n, rate, power_law(3, 0.03)) * subject.by_difficulty(
        0.2, 0.4
    )
    mu *= np.exp(moods[: len(AREAS)])  # rhythms vary over many seconds, whatever the task
    beta *= np.exp(moods[len(AREAS) :])
    lost = np.zeros((len(AREAS), n), np.float32)
    rebound = np.zeros((len(AREAS), n), np.float32)
    for event in imagined:
        fades = cortex.effort(rng) * np.array([cortex.fade(event.label, area) for area in AREAS])
        span = slice(event.start, min(n, event.stop + round(AFTER_S * rate)))
        t = np.arange(span.stop - span.start) / rate
        on, after = _course(t, (event.stop - event.start) / rate, cortex.delay_s)
        lost[:, span] += np.outer(fades, on)
        rebound[:, span] += np.outer(np.maximum(fades, 0), after)
    mu *= np.clip(1 - lost, 0.05, 2) * cortex.mu_uv
    beta *= np.clip(1 - 0.8 * lost + 0.6 * rebound, 0.05, 2) * cortex.beta_uv
    person = subject.person_rng("motor areas")
    rows = [scalp.head.area(area, person, spread=0.05) for area in AREAS]
    return [Activity(row, signal) for row, signal in zip(rows + rows, (*mu, *beta), strict=True)]


def _course(t: Vectors, length_s: float, delay_s: float) -> tuple[Vectors, Vectors]:
    """How much of the fading, and of the rebound, there is; t: seconds since the imagery began."""
    on = _rise(t - delay_s) * _rise(length_s + 0.3 - t)
    rebound = np.exp(-0.5 * ((t - length_s - 1.0) / 0.3) ** 2)
    return on, rebound


def _rise(t: Vectors) -> Vectors:
    out: Vectors = 1 / (1 + np.exp(-t / 0.12))
    return out
