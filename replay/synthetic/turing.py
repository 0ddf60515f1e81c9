"""turing: imagery, four flickers and idling, as two robots' behaviours allow, at 250 Hz."""

from collections.abc import Mapping

import numpy as np

from replay.recording import Recording
from replay.synthetic import imagery, ssvep
from replay.synthetic.activity import Activity
from replay.synthetic.cap import record_cap
from replay.synthetic.params import Number
from replay.synthetic.scalp import Scalp
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import Pen, Timeline
from tracks.codes import TRIAL_END, TRIAL_START
from tracks.turing import ACTION_S, CUE_S, SSVEP_HZ, TASK_S, TASKS_OF_BEHAVIOUR, TRACK

HANDS = (imagery.LEFT, imagery.RIGHT)  # tasks 1 and 2
EYES_OPEN = 0.6  # what is left of alpha

TEST_PARAMS = {
    "blocks": Number(6, 1, 100, "blocks a subject"),
    "rounds": Number(0, 0, 20, "rounds a block; 0: 3 to 5, by chance"),
    "trials": Number(0, 0, 1000, "trials a round; 0: 4 to 6, by chance"),
}
TRAIN_PARAMS = {
    "blocks": Number(10, 1, 100, "blocks a subject"),
    "trials": Number(20, 1, 1000, "trials a block, imagery only"),
}


def record(subject: Subject, params: Mapping[str, float]) -> Recording:
    draw = _training if subject.set == "train" else _test
    timelines = [draw(subject, block, params) for block in range(int(params["blocks"]))]
    return record_cap(TRACK, subject, timelines, _task, EYES_OPEN)


def _task(scalp: Scalp, block: int, line: Timeline) -> list[Activity]:
    imagined = [event for event in line.events if event.label in HANDS]
    watched = [event for event in line.events if event.label in SSVEP_HZ]
    return [
        *imagery.rhythms(scalp, block, line.n_samples, imagined),
        *ssvep.responses(scalp, block, line.n_samples, watched),
    ]


def _test(subject: Subject, block: int, params: Mapping[str, float]) -> Timeline:
    rng = subject.chance("timeline", block)
    pen = Pen(TRACK.rate, rng)
    pen.begin(first=block == 0)
    for _ in range(int(params["rounds"]) or rng.integers(3, 6)):
        for _ in range(int(params["trials"]) or rng.integers(4, 7)):
            behaviour = int(rng.integers(1, 10))
            _draw_trial(pen, behaviour, int(rng.choice(TASKS_OF_BEHAVIOUR[behaviour])))
        pen.wait(rng.uniform(1, 2))  # the robots take their new places
    return pen.finish(block == params["blocks"] - 1, TRACK.packet_samples)


def _training(subject: Subject, block: int, params: Mapping[str, float]) -> Timeline:
    """Imagery only, both hands alike often; the 8 s between two tasks are idle."""
    rng = subject.chance("timeline", block)
    pen = Pen(TRACK.rate, rng)
    pen.begin(first=block == 0)
    for task in rng.permutation(np.resize(rng.permutation(HANDS), int(params["trials"]))):
        allowing = [b for b, tasks in TASKS_OF_BEHAVIOUR.items() if task in tasks]
        _draw_trial(pen, int(rng.choice(allowing)), int(task))
    return pen.finish(block == params["blocks"] - 1, TRACK.packet_samples)


def _draw_trial(pen: Pen, behaviour: int, task: int) -> None:
    pen.mark(TRIAL_START)
    pen.wait(CUE_S)
    pen.mark(8 * behaviour + task)
    pen.event(TASK_S, task)
    pen.wait(TASK_S + ACTION_S)
    pen.mark(TRIAL_END)
