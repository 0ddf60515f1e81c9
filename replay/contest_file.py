"""A contest file: one subject's recording as an .npz (docs/recordings-npz.md)."""

from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import Triggers
from replay.readers.array_layout import SUBJECT_ID
from replay.recording import Recording
from replay.whole_file import write_whole


def write_npz(recording: Recording, path: Path, track: str, kind: str, *, secret: bool) -> None:
    """Write a recording with the triggers that it has; secret: for the owner's eyes only."""
    if not SUBJECT_ID.fullmatch(recording.subject):
        raise SourceError(
            f"a subject's id has 1 to 64 letters, digits and . _ -, got {recording.subject!r}; "
            "name it otherwise, e.g. FILE?subject=S01"
        )
    lengths = [block.n_samples for block in recording.blocks]
    starts = np.cumsum([0, *lengths])
    triggers = [
        (int(start) + sample, code)
        for start, block in zip(starts, recording.blocks, strict=False)
        for sample, code in block.triggers
    ]
    arrays: dict[str, Any] = {
        "data": _data(recording, int(starts[-1]), tuple(triggers)),
        "rate": np.float64(recording.rate),
        "leads": np.array([lead.name for lead in recording.leads]),
        "kinds": np.array([lead.kind for lead in recording.leads]),
        # The row can hold one code a sample; here stand all of them, each on its own sample.
        "events": np.array(triggers, dtype=np.int64).reshape(-1, 2),
        "block_starts": starts[:-1],
        "track": np.array(track),
        "subject": np.array(recording.subject),
        "set": np.array(kind),
    }
    if recording.angles is not None:
        arrays["angles"] = recording.angles
    write_whole(path, lambda file: np.savez(file, **arrays), secret=secret)


def _data(recording: Recording, n_samples: int, triggers: Triggers) -> np.ndarray[Any, Any]:
    data = np.zeros((len(recording.leads) + 1, n_samples), dtype=np.float32)
    start = 0
    for block in recording.blocks:
        stop = start + block.n_samples
        data[:-1, start:stop] = block.read(0, block.n_samples).T
        start = stop
    for sample, code in triggers:
        free = sample if not data[-1, sample] else min(sample + 1, n_samples - 1)
        data[-1, free] = code
    return data
