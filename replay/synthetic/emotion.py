"""emotion: 28 clips that stir nine emotions, 32 leads at 250 Hz, one lead order a batch."""

from collections.abc import Mapping

import numpy as np

from bci_stream.packet import FloatArray
from replay.recording import Recording
from replay.synthetic import affect
from replay.synthetic.params import Number
from replay.synthetic.scalp import CPZ, Scalp
from replay.synthetic.source import eeg_leads, recording
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import Pen, Timeline
from tracks.codes import TRIAL_END, TRIAL_START
from tracks.emotion import BLOCKS, CLIP_NUMBER_LEAD_S, CLIPS, CLIPS_A_BLOCK, TRACK
from tracks.leads import EMOTION_FIRST_BATCH, EMOTION_SECOND_BATCH

FIXATION_S = 5.0
RATING_AND_REST_S = (35.0, 50.0)
SHORTEST_CLIP_S = 4.0  # leaves a second that counts, wherever the grid of seconds lies
VALENCES = (range(1, 13), range(13, 17), range(17, 29))

PARAMS = {
    "blocks": Number(BLOCKS, 1, BLOCKS, "blocks a subject, of 4 clips each"),
    "pace": Number(1.0, 0.02, 1.0, "shortens clips (not below 4 s) and rests by this factor"),
    "batch": Number(2, 1, 2, "whose names and order of the leads: 1 or 2"),
}


def record(subject: Subject, params: Mapping[str, float]) -> Recording:
    blocks, pace = int(params["blocks"]), params["pace"]
    leads = EMOTION_FIRST_BATCH if params["batch"] == 1 else EMOTION_SECOND_BATCH
    order = _order(subject)[:blocks]
    timelines = [_timeline(subject, block, order, pace) for block in range(blocks)]
    scalp = Scalp(subject, leads, CPZ, TRACK.rate)

    def render(block: int) -> FloatArray:
        line = timelines[block]
        task = affect.rhythms(scalp, block, line.n_samples, line.events, pace)
        return scalp.record(block, line.n_samples, task)

    return recording(subject, TRACK.rate, eeg_leads(leads), timelines, render)


def _order(subject: Subject) -> list[list[int]]:
    """Training: the clips of a block are of one valence; test: all are shuffled (2.2.2)."""
    rng = subject.chance("order")
    if subject.set == "test":
        clips = rng.permutation(list(CLIPS))
    else:
        clips = np.concatenate([rng.permutation(clips) for clips in VALENCES])
    shown = [[int(clip) for clip in block] for block in clips.reshape(-1, CLIPS_A_BLOCK)]
    return [shown[block] for block in rng.permutation(len(shown))]


def _timeline(subject: Subject, block: int, order: list[list[int]], pace: float) -> Timeline:
    rng = subject.chance("timeline", block)
    pen = Pen(TRACK.rate, rng)
    pen.begin(first=block == 0)
    for clip in order[block]:
        pen.wait(FIXATION_S * pace)
        pen.mark(clip)
        pen.wait(CLIP_NUMBER_LEAD_S)
        # The player's clock is not the amplifier's: lengths differ by some tens of milliseconds.
        seconds = max(CLIPS[clip][0] * pace, SHORTEST_CLIP_S) + rng.normal(0, 0.02)
        pen.mark(TRIAL_START)
        pen.event(seconds, clip)
        pen.wait(seconds)
        pen.mark(TRIAL_END)
        pen.wait(rng.uniform(*RATING_AND_REST_S) * pace)
    return pen.finish(block == len(order) - 1, TRACK.packet_samples)
