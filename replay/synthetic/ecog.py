"""ecog: an animal on a treadmill; 32 channels of motor cortex at 1000 Hz, 8 angles at 200 Hz."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bci_stream.packet import FloatArray, Lead
from replay.recording import Recording
from replay.synthetic.gait import REST, ROWS_HZ, STEADY, VARYING, Walk, walk
from replay.synthetic.grid import RATE, Grid
from replay.synthetic.params import Number
from replay.synthetic.source import recording
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import Pen, Timeline
from tracks.codes import TRIAL_END, TRIAL_START
from tracks.leads import ECOG_32

PACKET_SAMPLES = 40
SAMPLES_A_ROW = RATE // ROWS_HZ


def _params(blocks: int, trials: int, seconds: float) -> dict[str, Number]:
    return {
        "blocks": Number(blocks, 1, 1000, "blocks a subject"),
        "trials": Number(trials, 1, 1000, "trials a block"),
        "seconds": Number(seconds, 4.0, 600.0, "seconds a trial"),
    }


TRAIN_PARAMS = _params(36, 5, 60.0)  # three hours
CALIBRATION_PARAMS = _params(1, 2, 150.0)  # five minutes: rest, then an even walk
TEST_PARAMS = _params(6, 5, 60.0)  # half an hour


def record(subject: Subject, params: Mapping[str, float]) -> Recording:
    blocks = range(int(params["blocks"]))
    timelines = [_timeline(subject, block, params) for block in blocks]
    grid = Grid(subject)

    def render(block: int) -> FloatArray:
        line = timelines[block]
        return grid.record(block, line.n_samples, _walk(subject, block, line))

    leads = tuple(Lead(name, "ECOG") for name in ECOG_32)
    angles = [_walk(subject, block, line).angles for block, line in enumerate(timelines)]
    return replace(
        recording(subject, RATE, leads, timelines, render), angles=np.concatenate(angles)
    )


def _walk(subject: Subject, block: int, line: Timeline) -> Walk:
    belt = [(e.start // SAMPLES_A_ROW, e.stop // SAMPLES_A_ROW, e.label) for e in line.events]
    return walk(subject, block, line.n_samples // SAMPLES_A_ROW, belt)


def _timeline(subject: Subject, block: int, params: Mapping[str, float]) -> Timeline:
    rng = subject.chance("timeline", block)
    pen = Pen(RATE, rng)
    pen.begin(first=block == 0)
    for trial in range(int(params["trials"])):
        pen.mark(TRIAL_START)
        for share, kind in _belt(subject, rng, trial):
            pen.event(share * params["seconds"], kind)
            pen.wait(share * params["seconds"])
        pen.mark(TRIAL_END)
        pen.wait(rng.uniform(0.5, 1.0))
    # Whole rows of angles in every block, so that the session's rows are the blocks' in order.
    return pen.finish(block == params["blocks"] - 1, PACKET_SAMPLES, multiple_of=SAMPLES_A_ROW)


def _belt(subject: Subject, rng: np.random.Generator, trial: int) -> list[tuple[float, int]]:
    """What the belt does in a trial: (share of its time, how)."""
    if subject.set == "calibration":
        return [(1.0, STEADY if trial % 2 else REST)]
    parts = [(0.2, REST), (0.35, STEADY), (0.45, VARYING)]
    return [parts[i] for i in rng.permutation(len(parts))]
