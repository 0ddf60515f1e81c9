"""turing: imagery, four flickers and idling, as two robots' behaviours allow, at 250 Hz."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from replay.model.recording import Recording
from replay.synthetic import imagery
from replay.synthetic.head import Vectors
from replay.synthetic.noise import Activity
from replay.synthetic.scalp import Scalp, record_cap
from replay.synthetic.source import NumberParam, Params, RecordingSet
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline, TimelineBuilder, TimelineEvent
from tracks.common.codes import TRIAL_END, TRIAL_START
from tracks.turing import ACTION_S, CUE_S, SSVEP_HZ, TASK_S, TASKS_OF_BEHAVIOUR, TRACK

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
        person = subject.person_rng("visual cortex")
        # At difficulty 0.5 some 4 to 13 dB above its neighbours at the best lead, as recorded people.
        first_uv = subject.by_difficulty(2.6, 0.8) * np.exp(person.normal(0, 0.2))
        shares = (1.0, person.uniform(0.3, 0.5), person.uniform(0.1, 0.2))
        return VisualCortex(
            latency_s=0.135 + subject.by_difficulty(0.006, 0.02) * person.uniform(-1, 1),
            harmonics_uv=tuple(first_uv * share for share in shares),
            lapse=subject.by_difficulty(0.02, 0.08),
        )

    def follow(self, t: Vectors, strengths: Mapping[float, float]) -> Vectors:
        """The response to lights sin(2 pi f t); strengths: f in Hz to how well it is seen."""
        seen_s = t - self.latency_s
        out = np.zeros(len(t))
        for f, strength in strengths.items():
            for harmonic, level_uv in enumerate(self.harmonics_uv, 1):
                out += strength * level_uv * np.sin(2 * np.pi * harmonic * f * seen_s)
        return out * np.clip(seen_s / BUILD_UP_S, 0, 1)


def responses(scalp: Scalp, block: int, n: int, watched: Iterable[TimelineEvent]) -> list[Activity]:
    """watched: when which light is looked at; all four begin to flicker then, with phase 0."""
    cortex = VisualCortex.of(scalp.subject)
    rng = scalp.subject.session_rng("ssvep", block)
    signal = np.zeros(n, np.float32)
    for event in watched:
        strengths = dict.fromkeys(SSVEP_HZ.values(), UNATTENDED)
        if rng.random() > cortex.lapse:
            strengths[SSVEP_HZ[event.label]] = rng.normal(1, 0.15)
        t = np.arange(event.stop - event.start) / scalp.rate
        signal[event.start : event.stop] = cortex.follow(t, strengths)
    person = scalp.subject.person_rng("visual areas")
    return [
        Activity(scalp.head.area(lead, person, spread=0.03), share * signal)
        for lead, share in AREAS.items()
    ]


HANDS = (imagery.LEFT, imagery.RIGHT)  # tasks 1 and 2
EYES_OPEN = 0.6  # what is left of alpha

TEST_PARAMS = {
    "blocks": NumberParam(6, 1, 100, "blocks a subject"),
    "rounds": NumberParam(0, 0, 20, "rounds a block; 0: 3 to 5, by chance"),
    "trials": NumberParam(0, 0, 1000, "trials a round; 0: 4 to 6, by chance"),
}
TRAIN_PARAMS = {
    "blocks": NumberParam(10, 1, 100, "blocks a subject"),
    "trials": NumberParam(20, 1, 1000, "trials a block, imagery only"),
}


def record(subject: Subject, params: Params) -> Recording:
    timeline = _training if subject.set == "train" else _test
    return record_cap(TRACK, subject, params, timeline, _task, EYES_OPEN)


def _task(scalp: Scalp, block: int, line: BlockTimeline) -> list[Activity]:
    imagined = [event for event in line.events if event.label in HANDS]
    watched = [event for event in line.events if event.label in SSVEP_HZ]
    return [
        *imagery.rhythms(scalp, block, line.n_samples, imagined),
        *responses(scalp, block, line.n_samples, watched),
    ]


def _test(subject: Subject, block: int, params: Params) -> BlockTimeline:
    rng = subject.session_rng("timeline", block)
    builder = TimelineBuilder(TRACK.rate, rng)
    builder.begin_block(first=block == 0)
    for _ in range(int(params["rounds"]) or rng.integers(3, 6)):
        for _ in range(int(params["trials"]) or rng.integers(4, 7)):
            behaviour = int(rng.integers(1, 10))
            _draw_trial(builder, behaviour, int(rng.choice(TASKS_OF_BEHAVIOUR[behaviour])))
        builder.advance(rng.uniform(1, 2))  # the robots take their new places
    return builder.finish_block(block == params["blocks"] - 1, TRACK.packet_samples)


def _training(subject: Subject, block: int, params: Params) -> BlockTimeline:
    """Imagery only, both hands equally often; the 8 s between two tasks are idle."""
    rng = subject.session_rng("timeline", block)
    builder = TimelineBuilder(TRACK.rate, rng)
    builder.begin_block(first=block == 0)
    for task in rng.permutation(np.resize(rng.permutation(HANDS), int(params["trials"]))):
        allowing = [b for b, tasks in TASKS_OF_BEHAVIOUR.items() if task in tasks]
        _draw_trial(builder, int(rng.choice(allowing)), int(task))
    return builder.finish_block(block == params["blocks"] - 1, TRACK.packet_samples)


def _draw_trial(builder: TimelineBuilder, behaviour: int, task: int) -> None:
    builder.trigger(TRIAL_START)
    builder.advance(CUE_S)
    builder.trigger(8 * behaviour + task)
    builder.event(TASK_S, task)
    builder.advance(TASK_S + ACTION_S)
    builder.trigger(TRIAL_END)


SETS = {"train": RecordingSet(record, TRAIN_PARAMS), "test": RecordingSet(record, TEST_PARAMS)}
