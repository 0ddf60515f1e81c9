"""A pickle file: the emotion track's .pkl (33 x N), or a dict of arrays in our layout.

The pickle is loaded in a child process, in which only arrays can be named (`pickle_child`), with a limit of
memory and a deadline. The arrays come back as .npz.
"""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.arrays import pickle_child
from replay.readers.arrays.layout import Arrays, content_of_arrays
from replay.readers.guard import reading, run_child

DEADLINE_S = 20.0
BYTES_PER_S = 20e6
"""The deadline grows with the file."""

EMOTION_ROWS = 33


def read_pickle(path: Path, options: SourceOptions) -> Content:
    """Read a .pkl; nothing in it is executed."""
    with reading(str(path), "pickle"):
        arrays = _load(path)
        if not _is_emotion(arrays, options):
            return content_of_arrays(path.name, "pickle", arrays, options)
        emotion = dataclasses.replace(options, track="emotion")
        content = content_of_arrays(path.name, "pickle", arrays, emotion)
        note = "33 rows, and neither a track nor a rate named: taken as the emotion track's"
        return dataclasses.replace(content, track="emotion", notes=(note, *content.notes))


def _load(path: Path) -> Arrays:
    deadline_s = DEADLINE_S + path.stat().st_size / BYTES_PER_S
    with tempfile.TemporaryDirectory(prefix="bci-pickle-") as folder:
        out = Path(folder) / "arrays.npz"
        script = [str(Path(pickle_child.__file__)), str(path.resolve()), str(out)]
        ended = run_child(path, "pickle", script, deadline_s)
        if ended.returncode:
            reason = ended.stderr.strip().rpartition("\n")[2][:300]
            raise SourceError(f"{path} can't be read as pickle: {reason}")
        with np.load(out, allow_pickle=False) as file:
            names = [str(name) for name in file["names"]]
            return {name: file[str(number)] for number, name in enumerate(names)}


def _is_emotion(arrays: Arrays, options: SourceOptions) -> bool:
    alone = set(arrays) == {"data"} and arrays["data"].ndim == 2
    return (
        alone
        and EMOTION_ROWS in arrays["data"].shape
        and not (options.track or options.rate or options.leads)
    )
