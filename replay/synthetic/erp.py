"""erp: a speller of 36 characters in 12 groups that flash, 64 leads at 250 Hz."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray
from replay.model.recording import Recording
from replay.synthetic.head import CORTEX, DEEP, Vectors
from replay.synthetic.noise import Activity
from replay.synthetic.scalp import Scalp, record_cap
from replay.synthetic.source import NumberParam, Params, RecordingSet
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline, TimelineBuilder, TimelineEvent
from tracks.common.codes import TRIAL_END
from tracks.erp import (
    CHARACTERS,
    CUE_S,
    FIRST_TARGET,
    FLASH_S,
    GAP_S,
    GROUPS,
    SEQUENCE_END,
    SEQUENCES,
    TRACK,
)

WINDOW_S = 0.9
REFRACTORY_S = 0.5  # a target that follows another one so soon evokes a smaller response


@dataclass(frozen=True)
class Wave:
    """One component of the response; other_uv: its size after a flash that is not the target."""

    areas: tuple[str, ...]
    depth: float
    target_uv: float
    other_uv: float
    latency_s: float
    width_s: float
    jitter_s: float


def waves_of(subject: Subject) -> tuple[Wave, ...]:
    """A person's own response: early visual waves, N170 to the face, N200, P300.

    Sizes are such that at difficulty 0.5 a single flash is as informative as in recorded spellers,
    whose early occipital negativity is as far above the background as their P300 is.
    """
    person = subject.person_rng("evoked")
    size = subject.by_difficulty(1.6, 0.9) * np.exp(person.normal(0, 0.15))
    visual = np.exp(person.normal(0, 0.25))
    late_s = person.normal(0, 0.02)
    p300_s = person.uniform(0.30, 0.37)
    jitter_s = subject.by_difficulty(0.015, 0.035)
    return (
        Wave(("Oz",), CORTEX, 1.3 * visual, 1.2 * visual, 0.10 + late_s / 2, 0.018, 0.003),
        Wave(("PO7", "PO8"), CORTEX, -6.0 * size, -1.0, 0.175 + late_s, 0.022, 0.006),
        Wave(("POz", "Cz"), CORTEX, -3.0 * size, -0.2, 0.225 + late_s, 0.030, 0.010),
        Wave(("Pz",), DEEP, 6.0 * size, 0.4, p300_s + late_s, 0.060, jitter_s),
        Wave(("Cz",), DEEP, 2.0 * size, 0.1, p300_s + late_s - 0.03, 0.050, jitter_s),
    )


def responses(scalp: Scalp, block: int, n: int, flashes: Sequence[TimelineEvent]) -> list[Activity]:
    """The sum of all flashes' responses; a flash's label is 1 where it is the target's, else 0."""
    subject, rate = scalp.subject, scalp.rate
    rng = subject.session_rng("evoked", block)
    person = subject.person_rng("evoked areas")
    starts = np.array([flash.start for flash in flashes])
    is_target = np.array([flash.label == 1 for flash in flashes])
    attention = _attention(rng, starts / rate, is_target, lapse=subject.by_difficulty(0.03, 0.12))
    out = []
    for wave in waves_of(subject):
        peaks_uv = wave.other_uv + (wave.target_uv - wave.other_uv) * attention
        latencies_s = wave.latency_s + rng.normal(0, wave.jitter_s, len(starts))
        t = np.arange(round(WINDOW_S * rate)) / rate
        shapes = np.exp(-0.5 * ((t - latencies_s[:, None]) / wave.width_s) ** 2)
        signal = _overlapped(n, starts, shapes * peaks_uv[:, None])
        for area in wave.areas:
            out.append(Activity(scalp.head.area(area, person, wave.depth), signal))
    return out


def _attention(
    rng: np.random.Generator, at_s: Vectors, is_target: NDArray[np.bool_], lapse: float
) -> Vectors:
    """(flashes,): 0 for flashes that are not the target, about 1 for a target that was noticed."""
    noticed = np.clip(rng.normal(1, 0.25, len(at_s)), 0, 2) * (rng.random(len(at_s)) > lapse)
    places = np.flatnonzero(is_target)
    tired = np.diff(at_s[places], prepend=-np.inf) < REFRACTORY_S
    noticed[places[tired]] *= 0.6
    return np.where(is_target, noticed, 0)


def _overlapped(n: int, starts: NDArray[np.int64], shapes: Vectors) -> FloatArray:
    """(n,): the sum of (flashes, samples) responses, each from its own start on."""
    length = shapes.shape[1]
    out = np.zeros(n + length, np.float32)
    for start, shape in zip(starts, shapes, strict=True):
        out[start : start + length] += shape
    return out[:n]


EYES_BUSY = 0.5  # what is left of alpha

PARAMS = {
    "blocks": NumberParam(1, 1, 100, "blocks a subject"),
    "trials": NumberParam(32, 1, 1000, "characters a block"),
}


def record(subject: Subject, params: Params) -> Recording:
    return record_cap(TRACK, subject, params, _timeline, _task, EYES_BUSY)


def _task(scalp: Scalp, block: int, line: BlockTimeline) -> list[Activity]:
    return responses(scalp, block, line.n_samples, line.events)


def _timeline(subject: Subject, block: int, params: Params) -> BlockTimeline:
    trials = int(params["trials"])
    rng = subject.session_rng("timeline", block)
    builder = TimelineBuilder(TRACK.rate, rng)
    builder.begin_block(first=block == 0)
    elsewhere = _elsewhere(subject, block, trials)
    for number in range(trials):
        place = int(rng.integers(len(CHARACTERS)))
        builder.trigger(FIRST_TARGET + place)
        builder.advance(CUE_S)
        for _ in range(SEQUENCES):
            groups = [int(group) for group in rng.permutation(list(GROUPS))]
            _draw_sequence(builder, groups, "" if number in elsewhere else CHARACTERS[place])
            builder.advance(GAP_S)
        builder.trigger(TRIAL_END)
        builder.advance(rng.uniform(0.3, 0.6))
    return builder.finish_block(block == params["blocks"] - 1, TRACK.packet_samples)


def _elsewhere(subject: Subject, block: int, trials: int) -> set[int]:
    """Trials in which the person looks elsewhere, so that no decoder can spell them."""
    rng = subject.session_rng("eyes elsewhere", block)
    count = int(subject.by_difficulty(0.04, 0.10) * trials + rng.random())
    return set(rng.permutation(trials)[:count].tolist())


def _draw_sequence(builder: TimelineBuilder, groups: list[int], watched: str) -> None:
    """watched: the character that the person looks at; empty: elsewhere."""
    for group in groups:
        builder.trigger(group)
        builder.event(FLASH_S, int(bool(watched) and watched in GROUPS[group]))
        builder.advance(FLASH_S)
    builder.trigger(SEQUENCE_END)


SETS = {
    "train": RecordingSet(record, PARAMS),
    "test": RecordingSet(record, PARAMS, first_subject=101),
}
