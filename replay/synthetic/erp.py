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
    elsewhere = _elsewhere(subject, block, trials)
    for number in range(trials):
        place = int(rng.integers(len(CHARACTERS)))
        pen.mark(FIRST_TARGET + place)
        pen.wait(CUE_S)
        for _ in range(SEQUENCES):
            groups = [int(group) for group in rng.permutation(list(GROUPS))]
            _draw_sequence(pen, groups, "" if number in elsewhere else CHARACTERS[place])
            pen.wait(GAP_S)
        pen.mark(TRIAL_END)
        pen.wait(rng.uniform(0.3, 0.6))
    return pen.finish(block == blocks - 1, TRACK.packet_samples)


def _elsewhere(subject: Subject, block: int, trials: int) -> set[int]:
    """The characters that the eyes are not on while they flash: the one thing no decoder can spell."""
    rng = subject.chance("eyes elsewhere", block)
    count = int(subject.between(0.04, 0.10) * trials + rng.random())
    return set(rng.permutation(trials)[:count].tolist())


def _draw_sequence(pen: Pen, groups: list[int], watched: str) -> None:
    """watched: the character that is looked at; none where it is empty."""
    for group in groups:
        pen.mark(group)
        pen.event(FLASH_S, int(bool(watched) and watched in GROUPS[group]))
        pen.wait(FLASH_S)
    pen.mark(SEQUENCE_END)
