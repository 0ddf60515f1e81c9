"""erp: a speller of 36 characters in 12 groups that flash, 64 leads at 250 Hz."""

from collections.abc import Mapping

from replay.recording import Recording
from replay.synthetic import evoked
from replay.synthetic.activity import Activity
from replay.synthetic.cap import record_cap
from replay.synthetic.params import Number
from replay.synthetic.scalp import Scalp
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import Pen, Timeline
from tracks.codes import TRIAL_END
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

EYES_BUSY = 0.5  # what is left of alpha

PARAMS = {
    "blocks": Number(1, 1, 100, "blocks a subject"),
    "trials": Number(32, 1, 1000, "characters a block"),
}


def record(subject: Subject, params: Mapping[str, float]) -> Recording:
    blocks, trials = int(params["blocks"]), int(params["trials"])
    timelines = [_timeline(subject, block, blocks, trials) for block in range(blocks)]
    return record_cap(TRACK, subject, timelines, _task, EYES_BUSY)


def _task(scalp: Scalp, block: int, line: Timeline) -> list[Activity]:
    return evoked.responses(scalp, block, line.n_samples, line.events)


def _timeline(subject: Subject, block: int, blocks: int, trials: int) -> Timeline:
    rng = subject.chance("timeline", block)
    pen = Pen(TRACK.rate, rng)
    pen.begin(first=block == 0)
    for _ in range(trials):
        place = int(rng.integers(len(CHARACTERS)))
        pen.mark(FIRST_TARGET + place)
        pen.wait(CUE_S)
        for _ in range(SEQUENCES):
            _draw_sequence(pen, [int(group) for group in rng.permutation(list(GROUPS))], place)
            pen.wait(GAP_S)
        pen.mark(TRIAL_END)
        pen.wait(rng.uniform(0.3, 0.6))
    return pen.finish(block == blocks - 1, TRACK.packet_samples)


def _draw_sequence(pen: Pen, groups: list[int], place: int) -> None:
    for group in groups:
        pen.mark(group)
        pen.event(FLASH_S, int(CHARACTERS[place] in GROUPS[group]))
        pen.wait(FLASH_S)
    pen.mark(SEQUENCE_END)
