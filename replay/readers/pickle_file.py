"""A pickle file: the emotion track's .pkl (33 x N), or a dict of arrays in our layout."""

import dataclasses
from pathlib import Path

import numpy as np

from replay.options import SourceOptions
from replay.readers.array_layout import Arrays, content_of_arrays
from replay.readers.content import Content
from replay.readers.guard import reading
from replay.readers.safe_pickle import load_arrays

EMOTION_ROWS = 33


def read_pickle(path: Path, options: SourceOptions) -> Content:
    """Read a .pkl through an unpickler that admits numpy arrays only."""
    with reading(str(path), "pickle"):
        with path.open("rb") as file:
            loaded = load_arrays(file)
        named = loaded if isinstance(loaded, dict) else {"data": loaded}
        arrays = {key: np.asarray(value) for key, value in named.items()}
        if not _is_emotions(arrays, options):
            return content_of_arrays(path.name, "pickle", arrays, options)
        emotion = dataclasses.replace(options, track="emotion")
        content = content_of_arrays(path.name, "pickle", arrays, emotion)
        said = "33 rows, and neither a track nor a rate named: taken as the emotion track's"
        return dataclasses.replace(content, track="emotion", notes=(said, *content.notes))


def _is_emotions(arrays: Arrays, options: SourceOptions) -> bool:
    alone = set(arrays) == {"data"} and arrays["data"].ndim == 2
    return (
        alone
        and EMOTION_ROWS in arrays["data"].shape
        and not (options.track or options.rate or options.leads)
    )
