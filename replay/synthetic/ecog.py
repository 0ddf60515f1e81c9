"""ecog: an animal on a treadmill; 32 channels of motor cortex, and eight joint angles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import signal

from bci_stream.packet import FloatArray, Lead
from replay.model.recording import Recording
from replay.synthetic import artefacts
from replay.synthetic.head import Vectors
from replay.synthetic.noise import band, noise, power_law
from replay.synthetic.source import NumberParam, Params, RecordingSet, recording
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline, TimelineBuilder
from tracks.common.angles import ANGLE_RATE
from tracks.common.codes import TRIAL_END, TRIAL_START
from tracks.common.leads import ECOG_32
from tracks.ecog import TRACK

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
    """belt: (first row, end row, REST, STEADY or VARYING); at rest elsewhere."""
    rng = subject.session_rng("walk", block)
    speed = _speed(rng, rows, belt)
    strides_hz = subject.person_rng("gait").uniform(0.85, 1.1)
    unsteady = 1 + 0.04 * noise(rng, 1, rows, ANGLE_RATE, power_law(2, 0.2))[0]
    phase = 2 * np.pi * np.cumsum(strides_hz * speed * unsteady) / ANGLE_RATE
    vigour = 1 - np.exp(-speed / 0.35)
    angles = np.stack([*_angles(subject, phase, vigour)], axis=1)
    angles += 1.2 * noise(rng, len(JOINTS), rows, ANGLE_RATE, power_law(2, 0.05)).T  # posture
    angles += rng.normal(0, 0.15, angles.shape)  # the cameras' error
    return Walk(angles, phase, vigour)


def _speed(rng: np.random.Generator, rows: int, belt: Sequence[tuple[int, int, int]]) -> Vectors:
    """Relative to an easy walk."""
    wanted = np.zeros(rows)
    for first, end, kind in belt:
        if kind == STEADY:
            wanted[first:end] = rng.uniform(0.9, 1.1)
        elif kind == VARYING:
            drift = noise(rng, 1, end - first, ANGLE_RATE, power_law(3, 0.08))[0]
            wanted[first:end] = np.clip(1.0 + 0.35 * drift, 0.3, 1.8)
    keep = np.exp(-1 / (BELT_S * ANGLE_RATE))
    out: Vectors = signal.lfilter([1 - keep], [1, -keep], wanted)
    return out


def _angles(subject: Subject, phase: Vectors, vigour: Vectors) -> list[Vectors]:
    person = subject.person_rng("joints")
    out = []
    for rest_deg, swing_deg, place, second, second_place in JOINTS.values():
        rest_deg, swing_deg = rest_deg + person.normal(0, 5), swing_deg * person.uniform(0.8, 1.2)
        place, second_place = np.array([place, second_place]) + person.normal(0, 0.02, 2)
        curve = np.cos(phase - 2 * np.pi * place)
        curve += second * np.cos(2 * phase - 2 * np.pi * second_place)
        out.append(rest_deg + swing_deg * vigour * curve)
    return out


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
        shift = self.subject.person_rng("implant").normal(0, 0.7, 2)
        out: Vectors = np.stack([rows * SPACING_MM[0], columns * SPACING_MM[1]], axis=1) + shift
        return out

    @cached_property
    def noisy(self) -> tuple[int, ...]:
        """Channels with a bad contact; there are always some, so it pays to choose."""
        rng = self.subject.person_rng("bad channels")
        return tuple(int(c) for c in rng.choice(len(ECOG_32), rng.integers(3, 6), replace=False))

    def record(self, block: int, n: int, walk: Walk) -> FloatArray:
        """(n, 32) microvolts."""
        data = self._background(block, n)
        data += self._beta(block, n, walk)
        data += self._slow(n, walk)
        data += self._high_gamma(block, n, walk)
        lines = artefacts.mains(self.subject, ECOG_32, block, n, TRACK.rate, LINE_UV)
        for row, line in lines:
            data += np.outer(line, row.astype(np.float32))
        self._spoil(block, data)
        data[:, artefacts.flat_leads(self.subject, len(ECOG_32))] = 0
        return data

    def _background(self, block: int, n: int) -> FloatArray:
        weights = self._weights(_scattered("background", FIELDS), "background")
        weights *= BACKGROUND_UV / np.sqrt(np.sum(weights**2, axis=0)).mean()
        rng = self.subject.session_rng("background", block)
        data: FloatArray = noise(
            rng, FIELDS, n, TRACK.rate, power_law(1.8, 1.0)
        ).T @ weights.astype(np.float32)
        data += OWN_UV * noise(rng, len(ECOG_32), n, TRACK.rate, power_law(1.0, 1.0)).T
        data += 0.8 * rng.standard_normal((n, len(ECOG_32)), np.float32)
        return data

    def _beta(self, block: int, n: int, walk: Walk) -> FloatArray:
        rng = self.subject.session_rng("beta", block)
        weights = BETA_UV * self._weights(_scattered("beta", 4), "background")
        quiet = 1 - 0.6 * _to_samples(walk.vigour[None], n)
        out: FloatArray = (noise(rng, 4, n, TRACK.rate, band(19, 3)) * quiet).T @ weights.astype(
            np.float32
        )
        return out

    def _slow(self, n: int, walk: Walk) -> FloatArray:
        """The local motor potential: follows the stride."""
        level_uv = self.subject.by_difficulty(12, 2.5)
        weights = level_uv * self._weights(_scattered("slow", PATCHES), "slow")
        person = self.subject.person_rng("slow tuning")
        turns = 2 * np.pi * (np.arange(PATCHES) / PATCHES + person.normal(0, 0.04, PATCHES))
        course = walk.vigour * np.cos(walk.phase - turns[:, None])
        out: FloatArray = _to_samples(course, n).T @ weights.astype(np.float32)
        return out

    def _high_gamma(self, block: int, n: int, walk: Walk) -> FloatArray:
        """Noise of 70-150 Hz, the stronger the nearer the stride is to what a patch prefers."""
        strength = self.subject.by_difficulty(1.8, 0.3)
        weights = strength * self._weights(_scattered("gamma", PATCHES), "gamma")
        person = self.subject.person_rng("gamma tuning")
        turns = 2 * np.pi * (np.arange(PATCHES) * 5 / PATCHES + person.normal(0, 0.04, PATCHES))
        tuned = np.exp(2.0 * (np.cos(walk.phase - turns[:, None]) - 1))
        active = _to_samples(walk.vigour * (0.15 + tuned), n)
        rng = self.subject.session_rng("high gamma", block)
        out = GAMMA_UV * noise(rng, len(ECOG_32), n, TRACK.rate, _broadband).T
        out *= 1 + active.T @ weights.astype(np.float32)
        return out

    def _spoil(self, block: int, data: FloatArray) -> None:
        rng = self.subject.session_rng("bad contacts", block)
        for channel in self.noisy:
            hiss = noise(rng, 1, len(data), TRACK.rate, power_law(0.3, 1.0))[0]
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
    at = (np.arange(n) / TRACK.rate - DELAY_S) * (TRACK.rate / 5)
    rows = np.arange(courses.shape[1])
    return np.stack([np.interp(at, rows, course) for course in courses]).astype(np.float32)


SAMPLES_A_ROW = TRACK.rate // ANGLE_RATE


def _params(blocks: int, trials: int, seconds: float) -> dict[str, NumberParam]:
    return {
        "blocks": NumberParam(blocks, 1, 1000, "blocks a subject"),
        "trials": NumberParam(trials, 1, 1000, "trials a block"),
        "seconds": NumberParam(seconds, 4.0, 600.0, "seconds a trial"),
    }


TRAIN_PARAMS = _params(36, 5, 60.0)  # three hours
CALIBRATION_PARAMS = _params(1, 2, 150.0)  # five minutes: rest, then an even walk
TEST_PARAMS = _params(6, 5, 60.0)  # half an hour


def record(subject: Subject, params: Params) -> Recording:
    blocks = range(int(params["blocks"]))
    timelines = [_timeline(subject, block, params) for block in blocks]
    grid = Grid(subject)

    def render(block: int) -> FloatArray:
        line = timelines[block]
        return grid.record(block, line.n_samples, _walk(subject, block, line))

    leads = tuple(Lead(name, "ECOG") for name in ECOG_32)
    angles = [_walk(subject, block, line).angles for block, line in enumerate(timelines)]
    return replace(
        recording(subject, TRACK.rate, leads, timelines, render), angles=np.concatenate(angles)
    )


def _walk(subject: Subject, block: int, line: BlockTimeline) -> Walk:
    belt = [(e.start // SAMPLES_A_ROW, e.stop // SAMPLES_A_ROW, e.label) for e in line.events]
    return walk(subject, block, line.n_samples // SAMPLES_A_ROW, belt)


def _timeline(subject: Subject, block: int, params: Params) -> BlockTimeline:
    rng = subject.session_rng("timeline", block)
    builder = TimelineBuilder(TRACK.rate, rng)
    builder.begin_block(first=block == 0)
    for trial in range(int(params["trials"])):
        builder.trigger(TRIAL_START)
        for share, kind in _belt(subject, rng, trial):
            builder.event(share * params["seconds"], kind)
            builder.advance(share * params["seconds"])
        builder.trigger(TRIAL_END)
        builder.advance(rng.uniform(0.5, 1.0))
    # Whole rows of angles in every block, so that the session's rows are the blocks' in order.
    return builder.finish_block(
        block == params["blocks"] - 1, TRACK.packet_samples, multiple_of=SAMPLES_A_ROW
    )


def _belt(subject: Subject, rng: np.random.Generator, trial: int) -> list[tuple[float, int]]:
    """What the belt does in a trial: (share of its time, how)."""
    if subject.set == "calibration":
        return [(1.0, STEADY if trial % 2 else REST)]
    parts = [(0.2, REST), (0.35, STEADY), (0.45, VARYING)]
    return [parts[i] for i in rng.permutation(len(parts))]


SETS = {
    "train": RecordingSet(record, TRAIN_PARAMS, subjects=1),
    "calibration": RecordingSet(record, CALIBRATION_PARAMS, first_subject=2),
    "test": RecordingSet(record, TEST_PARAMS, first_subject=2),
}
