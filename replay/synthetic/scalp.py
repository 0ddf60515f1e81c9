"""EEG of a whole cap: background, alpha, artefacts, and the activity that a track's task adds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bci_stream.packet import FloatArray
from replay.model.recording import Recording
from replay.synthetic import artefacts
from replay.synthetic.head import Head, Vectors, fit_cap, scattered
from replay.synthetic.noise import Activity, activities_of, band, mix, noise, power_law
from replay.synthetic.source import Params, eeg_leads, recording
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline
from tracks.track import Track

MASTOIDS = ("A1", "A2")  # the documents do not say what the 64 leads are measured against
CPZ = ("CPz",)  # emotion's does

BACKGROUND_SOURCES = 48
ALPHA_AREAS = {"O1": 1.0, "O2": 1.0, "POz": 0.8, "P3": 0.45, "P4": 0.45}
WHITE_UV_PER_ROOT_HZ, DRIFT_UV, OFFSET_UV = 0.08, 12.0, 120.0
LINE_UV = 2.0
ROWS_AT_ONCE = 8


@dataclass(frozen=True)
class Scalp:
    """One person's head in one set of recordings."""

    subject: Subject
    leads: tuple[str, ...]
    reference: tuple[str, ...]
    rate: float

    @cached_property
    def head(self) -> Head:
        return fit_cap(self.leads, self.reference, self.subject.session_rng("cap"))

    def record(self, block: int, n: int, task: Sequence[Activity]) -> FloatArray:
        """(n, leads) microvolts: the task's activity and all the rest."""
        place = (block, n, self.rate)
        data = mix(
            [
                *task,
                *self._background(block, n),
                *artefacts.eyes(self.subject, self.head, *place),
                artefacts.heart(self.subject, self.leads, *place),
                *artefacts.muscles(self.subject, self.head, *place),
                *artefacts.mains(self.subject, self.leads, *place, LINE_UV),
            ]
        )
        self._add_electrodes(block, data)
        artefacts.add_pops(self.subject, block, data, self.rate, per_minute=0.3)
        data[:, artefacts.flat_leads(self.subject, len(self.leads))] = 0
        return data

    def alpha(self, block: int, n: int, gain: FloatArray | float = 1.0) -> list[Activity]:
        """The occipital alpha rhythm at the person's own frequency. gain: a number, or (n,)."""
        person = self.subject.person_rng("alpha")
        level_uv = 4.5 * np.exp(person.normal(0, 0.35))
        rng, peak = self.subject.session_rng("alpha", block), band(alpha_hz(self.subject), 0.7)
        shared, *own = noise(rng, 1 + len(ALPHA_AREAS), n, self.rate, peak)
        out = []
        for (lead, share), wave in zip(ALPHA_AREAS.items(), own, strict=True):
            together = 0.8 * shared + 0.6 * wave  # the areas swing together, in part
            signal = (share * level_uv * gain * together).astype(np.float32)
            out.append(Activity(self.head.area(lead, person), signal))
        return out

    def _background(self, block: int, n: int) -> list[Activity]:
        person = self.subject.person_rng("background")
        rows = self.head.field(*scattered(person, BACKGROUND_SOURCES))
        level_uv = self.subject.by_difficulty(9, 11) * np.exp(person.normal(0, 0.15))
        rows *= level_uv / np.sqrt(np.sum(rows**2, axis=0)).mean()
        exponent = person.normal(1.3, 0.15)
        rng = self.subject.session_rng("background", block)
        return activities_of(rows, noise(rng, len(rows), n, self.rate, power_law(exponent)))

    def _add_electrodes(self, block: int, data: FloatArray) -> None:
        """Add what each electrode has of its own: white noise, a slow drift, an offset."""
        rng = self.subject.session_rng("electrodes", block)
        quality = np.exp(self.subject.person_rng("electrodes").normal(0, 0.3, len(self.leads)))
        offsets_uv = self.subject.session_rng("offsets").normal(0, OFFSET_UV, len(self.leads))
        white_uv = WHITE_UV_PER_ROOT_HZ * np.float32(np.sqrt(self.rate / 2))
        n = len(data)
        for first in range(0, len(self.leads), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            size = len(quality[some])
            own = noise(rng, size, n, self.rate, np.ones_like) * white_uv
            own += noise(rng, size, n, self.rate, _drift) * DRIFT_UV
            data[:, some] += (own.T * quality[some] + offsets_uv[some]).astype(np.float32)


def alpha_hz(subject: Subject) -> float:
    """A person's own frequency."""
    return subject.person_rng("alpha frequency").normal(10.2, 0.7)


def _drift(f: Vectors) -> Vectors:
    return np.where(f < 0.5, 1 / np.maximum(f, 0.01), 0.0)


Task = Callable[[Scalp, int, BlockTimeline], Sequence[Activity]]
"""(head, number of the block, its timeline) -> activity that the task evokes."""


def record_cap(
    track: Track,
    subject: Subject,
    params: Params,
    timeline: Callable[[Subject, int, Params], BlockTimeline],
    task: Task,
    alpha: float,
) -> Recording:
    """A subject's recording in a track's format; its blocks are rendered when they are read.

    timeline: draws that of a block by its number. alpha: gain of the alpha rhythm.
    """
    timelines = [timeline(subject, block, params) for block in range(int(params["blocks"]))]
    scalp = Scalp(subject, track.leads, MASTOIDS, track.rate)

    def render(block: int) -> FloatArray:
        line = timelines[block]
        active = task(scalp, block, line)
        return scalp.record(
            block, line.n_samples, [*active, *scalp.alpha(block, line.n_samples, alpha)]
        )

    return recording(subject, track.rate, eeg_leads(track.leads), timelines, render)
