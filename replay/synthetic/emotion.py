"""emotion: 28 film clips of nine emotions, 32 leads; each batch has its own order of leads."""

from collections.abc import Sequence

import numpy as np

from bci_stream.packet import FloatArray
from replay.model.recording import Recording
from replay.synthetic.head import Vectors
from replay.synthetic.noise import Activity, band, noise, power_law
from replay.synthetic.scalp import CPZ, Scalp, alpha_hz
from replay.synthetic.source import NumberParam, Params, RecordingSet, eeg_leads, recording
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline, TimelineBuilder, TimelineEvent
from tracks.common.codes import TRIAL_END, TRIAL_START
from tracks.common.leads import EMOTION_FIRST_BATCH, EMOTION_SECOND_BATCH
from tracks.emotion import BLOCKS, CLASSES, CLIP_NUMBER_LEAD_S, CLIPS, CLIPS_A_BLOCK, TRACK

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
    """(classes, bands, regions): the shared part as strong as this person has it, and their own."""
    person = subject.person_rng("affect")
    strength = subject.by_difficulty(2.2, 0.5) * np.exp(person.normal(0, 0.15))
    own = person.normal(
        0, subject.by_difficulty(0.5, 1.0), (len(CLASSES), len(BANDS), len(REGIONS))
    )
    out: Vectors = strength * shared_db() + own
    return out


def rhythms(
    scalp: Scalp, block: int, n: int, shown: Sequence[TimelineEvent], pace: float
) -> list[Activity]:
    """shown: when each clip is seen. pace: factor by which slow changes are shortened."""
    rng = scalp.subject.session_rng("affect", block)
    decibels = _decibels(scalp.subject, rng, n, scalp.rate, shown, pace)
    person = scalp.subject.person_rng("affect areas")
    rows = [scalp.head.area(region, person, spread=0.04) for region in REGIONS]
    spectra = (band(5.5, 1.2), band(alpha_hz(scalp.subject), 1.0), band(20, 4), band(37, 7))
    out = []
    for number, (name, spectrum) in enumerate(zip(BANDS, spectra, strict=True)):
        waves = noise(rng, len(REGIONS), n, scalp.rate, spectrum)
        levels_uv = LEVELS_UV[name] * np.exp(
            scalp.subject.person_rng(name).normal(0, 0.2, len(REGIONS))
        )
        for region, row in enumerate(rows):
            gain = 10 ** (decibels[number, region] / 20)
            waves[region] *= levels_uv[region] * _stretched(gain, n)
            out.append(Activity(row, waves[region]))
    return out


def _decibels(
    subject: Subject, rng: np.random.Generator, n: int, rate: float,
    shown: Sequence[TimelineEvent], pace: float,
) -> Vectors:  # fmt: skip
    """(bands, regions, steps of 0.1 s): the power's course over the block."""
    steps = int(np.ceil(n / rate * 10)) + 1
    t_s = np.arange(steps) / 10
    patterns = pattern_db(subject)
    wander = noise(rng, len(BANDS) * len(REGIONS), steps, 10, power_law(2, 0.01))
    out: Vectors = 0.8 * wander.reshape(len(BANDS), len(REGIONS), steps).astype(np.float64)
    for clip in shown:
        feeling = _feeling(rng, t_s - clip.start / rate, (clip.stop - clip.start) / rate, pace)
        scenery = _clip_db(clip.label) * subject.by_difficulty(0.4, 0.8)
        out += (patterns[CLIPS[clip.label][1]] + scenery)[..., None] * feeling
    return out


def _feeling(rng: np.random.Generator, t_s: Vectors, length_s: float, pace: float) -> Vectors:
    """Course over a clip: 0 before it, rises to about 1, varies, decays after its end."""
    grows = 1 - np.exp(-np.clip(t_s, 0, None) / (6 * pace))
    dies = np.exp(-np.clip(t_s - length_s, 0, None) / (8 * pace))
    swell = noise(rng, 1, len(t_s), 10, power_law(2, 0.05 / pace))[0]
    out: Vectors = grows * dies * np.clip(1 + 0.3 * swell, 0, None)
    return out


def _clip_db(clip: int) -> Vectors:
    """The effect of a clip's pictures and sound on all people: the same for all seeds."""
    return np.random.default_rng([2020, clip]).normal(0, 1, (len(BANDS), len(REGIONS)))


def _stretched(steps: Vectors, n: int) -> FloatArray:
    places = np.linspace(0, len(steps) - 1, n)
    return np.interp(places, np.arange(len(steps)), steps).astype(np.float32)


FIXATION_S = 5.0
RATING_AND_REST_S = (35.0, 50.0)
SHORTEST_CLIP_S = 4.0  # leaves a second that counts, wherever the grid of seconds lies
VALENCES = (range(1, 13), range(13, 17), range(17, 29))

PARAMS = {
    "blocks": NumberParam(BLOCKS, 1, BLOCKS, "blocks a subject, of 4 clips each"),
    "pace": NumberParam(1.0, 0.02, 1.0, "shortens clips (not below 4 s) and rests by this factor"),
    "batch": NumberParam(2, 1, 2, "whose names and order of the leads: 1 or 2"),
}


def record(subject: Subject, params: Params) -> Recording:
    blocks, pace = int(params["blocks"]), params["pace"]
    leads = EMOTION_FIRST_BATCH if params["batch"] == 1 else EMOTION_SECOND_BATCH
    order = _order(subject)[:blocks]
    timelines = [_timeline(subject, block, order, pace) for block in range(blocks)]
    scalp = Scalp(subject, leads, CPZ, TRACK.rate)

    def render(block: int) -> FloatArray:
        line = timelines[block]
        task = rhythms(scalp, block, line.n_samples, line.events, pace)
        return scalp.record(block, line.n_samples, task)

    return recording(subject, TRACK.rate, eeg_leads(leads), timelines, render)


def _order(subject: Subject) -> list[list[int]]:
    """Training: the clips of a block are of one valence; test: all are shuffled (2.2.2)."""
    rng = subject.session_rng("order")
    if subject.set == "test":
        clips = rng.permutation(list(CLIPS))
    else:
        clips = np.concatenate([rng.permutation(clips) for clips in VALENCES])
    shown = [[int(clip) for clip in block] for block in clips.reshape(-1, CLIPS_A_BLOCK)]
    return [shown[block] for block in rng.permutation(len(shown))]


def _timeline(subject: Subject, block: int, order: list[list[int]], pace: float) -> BlockTimeline:
    rng = subject.session_rng("timeline", block)
    builder = TimelineBuilder(TRACK.rate, rng)
    builder.begin_block(first=block == 0)
    for clip in order[block]:
        builder.advance(FIXATION_S * pace)
        builder.trigger(clip)
        builder.advance(CLIP_NUMBER_LEAD_S)
        # The player's clock is not the amplifier's: lengths differ by some tens of milliseconds.
        seconds = max(CLIPS[clip][0] * pace, SHORTEST_CLIP_S) + rng.normal(0, 0.02)
        builder.trigger(TRIAL_START)
        builder.event(seconds, clip)
        builder.advance(seconds)
        builder.trigger(TRIAL_END)
        builder.advance(rng.uniform(*RATING_AND_REST_S) * pace)
    return builder.finish_block(block == len(order) - 1, TRACK.packet_samples)


SETS = {
    "train": RecordingSet(record, PARAMS),
    "test": RecordingSet(record, PARAMS, first_subject=81),
}
