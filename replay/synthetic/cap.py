"""A cap recording: 64 leads against the mastoids, a task's activity over what is left of alpha."""

from collections.abc import Callable, Sequence

from bci_stream.packet import FloatArray
from replay.recording import Recording
from replay.synthetic.activity import Activity
from replay.synthetic.scalp import MASTOIDS, Scalp
from replay.synthetic.source import eeg_leads, recording
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import Timeline
from tracks.track import Track

Task = Callable[[Scalp, int, Timeline], Sequence[Activity]]
"""(whose head, the block's number, what happens in it) -> what the brain does about it."""


def record_cap(
    track: Track, subject: Subject, timelines: list[Timeline], task: Task, alpha: float
) -> Recording:
    """A subject's recording in a track's format; its blocks are rendered when they are read."""
    scalp = Scalp(subject, track.leads, MASTOIDS, track.rate)

    def render(block: int) -> FloatArray:
        line = timelines[block]
        active = task(scalp, block, line)
        return scalp.record(
            block, line.n_samples, [*active, *scalp.alpha(block, line.n_samples, alpha)]
        )

    return recording(subject, track.rate, eeg_leads(track.leads), timelines, render)
