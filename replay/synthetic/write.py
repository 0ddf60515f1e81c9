"""Synthetic recordings as files; docs/recordings-npz.md describes what is in them."""

from pathlib import Path
from typing import Any

import numpy as np

from replay.recording import Recording
from replay.synthetic.source import SyntheticSource
from replay.whole_file import write_whole


def write_recordings(source: SyntheticSource, out_dir: Path) -> list[Path]:
    """One .npz a subject; a file appears under its name only when it is whole."""
    out_dir.mkdir(parents=True, exist_ok=True)
    return [_write(source, session, out_dir) for session in source.sessions()]


def _write(source: SyntheticSource, session: Recording, out_dir: Path) -> Path:
    path = out_dir / f"{source.track}_{source.set}_{session.subject}.npz"
    lengths = [block.n_samples for block in session.blocks]
    arrays: dict[str, Any] = {
        "data": _labelled(session, lengths),
        "rate": np.float64(session.rate),
        "leads": np.array([lead.name for lead in session.leads]),
        "kinds": np.array([lead.kind for lead in session.leads]),
        "block_starts": np.cumsum([0, *lengths[:-1]]),
        "track": np.array(source.track),
        "subject": np.array(session.subject),
        "set": np.array(source.set),
    }
    if session.angles is not None:
        arrays["angles"] = session.angles
    write_whole(path, lambda file: np.savez(file, **arrays))
    return path


def _labelled(
    session: Recording, lengths: list[int]
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """(leads + 1, n): TRIGGER, with its labels, is the last row."""
    data = np.zeros((len(session.leads) + 1, sum(lengths)), np.float32)
    start = 0
    for block in session.blocks:
        data[:-1, start : start + block.n_samples] = block.read(0, block.n_samples).T
        for sample, code in block.triggers:
            data[-1, start + sample] = code
        start += block.n_samples
    return data
