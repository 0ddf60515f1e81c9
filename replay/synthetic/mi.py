"""mi: imagery of the left hand, the right hand and the feet, 64 leads at 1000 Hz."""

import numpy as np

from replay.model.recording import Recording
from replay.synthetic import imagery
from replay.synthetic.noise import Activity
from replay.synthetic.scalp import Scalp, record_cap
from replay.synthetic.source import NumberParam, Params, RecordingSet
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline, TimelineBuilder
from tracks.common.codes import TRIAL_END
from tracks.mi import CLASSES, CUE_S, IMAGERY_S, REST_S, TRACK

SEGMENTS_S = (0, 2, 3)  # where the first, second and third segment of the imagery start
EYES_OPEN = 0.6  # what is left of alpha

PARAMS = {
    "blocks": NumberParam(3, 1, 100, "blocks a subject"),
    "trials": NumberParam(30, 1, 1000, "trials a block"),
}


def record(subject: Subject, params: Params) -> Recording:
    return record_cap(TRACK, subject, params, _timeline, _task, EYES_OPEN)


def _task(scalp: Scalp, block: int, line: BlockTimeline) -> list[Activity]:
    return imagery.rhythms(scalp, block, line.n_samples, line.events)


def _timeline(subject: Subject, block: int, params: Params) -> BlockTimeline:
    rng = subject.session_rng("timeline", block)
    builder = TimelineBuilder(TRACK.rate, rng)
    builder.begin_block(first=block == 0)
    for label in _balanced(rng, int(params["trials"])):
        builder.advance(CUE_S)
        builder.event(IMAGERY_S, label)
        for segment, start_s in enumerate(SEGMENTS_S, 1):
            builder.trigger(10 * label + segment, after_s=start_s)
        builder.advance(IMAGERY_S)
        builder.trigger(TRIAL_END)
        builder.advance(REST_S)
    return builder.finish_block(block == params["blocks"] - 1, TRACK.packet_samples)


def _balanced(rng: np.random.Generator, trials: int) -> list[int]:
    """All classes equally often (as far as the number allows), in random order."""
    first = rng.permutation(list(CLASSES))
    return [int(label) for label in rng.permutation(np.resize(first, trials))]


SETS = {"train": RecordingSet(record, PARAMS), "test": RecordingSet(record, PARAMS)}
