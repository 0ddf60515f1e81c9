"""A numpy file: .npy (one matrix, memory-mapped) or .npz (arrays in our layout, clips by class)."""

from pathlib import Path

import numpy as np

from replay.options import SourceOptions
from replay.readers.array_layout import content_of_arrays
from replay.readers.content import Content
from replay.readers.emotion_clips import content_of_clips, holds_clips
from replay.readers.guard import reading


def read_numpy(path: Path, options: SourceOptions) -> Content:
    """Read a .npy or .npz; nothing in it is ever unpickled."""
    if path.suffix.lower() == ".npy":
        with reading(str(path), "npy"):
            data = np.load(path, mmap_mode="r", allow_pickle=False)
            return content_of_arrays(path.name, "npy", {"data": data}, options)
    with reading(str(path), "npz"):
        # Opened here, since numpy leaves a file open that turns out to be no archive.
        with path.open("rb") as archive, np.load(archive, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        read = content_of_clips if holds_clips(arrays) else content_of_arrays
        return read(path.name, "npz", arrays, options)
