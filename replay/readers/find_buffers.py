"""Where MNE's readers have found the samples of a file, for those formats whose samples stand plainly.

That is MNE's own knowledge, which it does not promise to tell: wherever it is not as it was, or
nothing plain, there are no buffers, and all goes MNE's slower way.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from replay.readers.buffers import PIECE_BYTES, Buffers, Row, rows_of_run
from replay.readers.fif_tags import HEADER

_FIFF_WORDS = {4: ">f4", 5: ">f8", 3: ">i4", 2: ">i2", 16: ">i2"}
_BRAINVISION_WORDS = {"single": "<f4", "int": "<i4", "short": "<i2"}
_EEGLAB_WORD = "<f4"


def find_buffers(raw: Any, form: str) -> Buffers | None:
    """The buffers of a raw object of MNE, as it came from its reader; None wherever they are not plain."""
    if form not in _FINDERS:
        return None
    try:
        buffers = _FINDERS[form](raw)
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    if buffers is None or buffers.n_samples != int(raw.n_times):
        return None
    return buffers if buffers.n_channels == len(raw.ch_names) else None


def _of_fif(raw: Any) -> Buffers | None:
    forms = {tag.type for extra in raw._raw_extras for tag in extra["ent"] if tag is not None}
    channels = {int(extra["orig_nchan"]) for extra in raw._raw_extras}
    if len(forms) != 1 or len(channels) != 1 or not forms <= _FIFF_WORDS.keys():
        return None
    n_channels, word = channels.pop(), np.dtype(_FIFF_WORDS[forms.pop()])
    rows = [row for extra in raw._raw_extras for row in _fif_rows(extra)]
    if any(row.step <= 0 for row in rows):
        return None
    cut = [piece for row in rows for piece in _cut(row, n_channels * word.itemsize)]
    return Buffers(tuple(cut), n_channels, word)


def _fif_rows(extra: Any) -> list[Row]:
    """The buffers of one file; a row ends where the length, or the way to the next one, changes."""
    places = np.array([0 if tag is None else tag.pos + HEADER.size for tag in extra["ent"]])
    lengths, steps = np.diff(extra["bounds"]), np.diff(places)
    changes = (lengths[1:] != lengths[:-1]) | (places[1:] == 0) | (places[:-1] == 0)
    changes[1:] |= steps[1:] != steps[:-1]
    firsts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    return [
        Row(
            path=Path(extra["filename"]) if places[first] else None,
            place=int(places[first]),
            step=int(steps[first]) if following - first > 1 else 1,
            n_buffers=following - first,
            buffer_samples=int(lengths[first]),
        )
        for first, following in pairwise([*firsts, len(places)])
    ]


def _cut(row: Row, sample_bytes: int) -> Iterator[Row]:
    """A row whose buffers can be read at once: a FIF may have one for all of its samples."""
    if row.path is None or row.buffer_samples * sample_bytes <= 2 * PIECE_BYTES:
        yield row
        return
    for number in range(row.n_buffers):
        place = row.place + number * row.step
        yield from rows_of_run(row.path, place, row.buffer_samples, sample_bytes)


def _of_brainvision(raw: Any) -> Buffers | None:
    (extra,) = raw._raw_extras
    multiplexed = extra["order"] == "F" and isinstance(extra["fmt"], str)
    return _whole_file(raw, _BRAINVISION_WORDS[extra["fmt"]]) if multiplexed else None


def _of_eeglab(raw: Any) -> Buffers | None:
    (path,) = raw.filenames
    is_apart = Path(path).suffix.lower() == ".fdt"  # else all of it stands in the .set
    return _whole_file(raw, _EEGLAB_WORD) if is_apart else None


def _whole_file(raw: Any, form: str) -> Buffers | None:
    """A file of nothing but samples."""
    (path,), (extra,) = raw.filenames, raw._raw_extras
    n_channels, word = int(extra["orig_nchan"]), np.dtype(form)
    n_samples = Path(path).stat().st_size // (n_channels * word.itemsize)
    rows = rows_of_run(Path(path), 0, n_samples, n_channels * word.itemsize)
    return Buffers(tuple(rows), n_channels, word)


_FINDERS: dict[str, Callable[[Any], Buffers | None]] = {
    "FIF": _of_fif,
    "BrainVision": _of_brainvision,
    "EEGLAB": _of_eeglab,
}
