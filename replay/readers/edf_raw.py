"""EDF and BDF as MNE opens them, but for one thing: annotations are read without the signals.

MNE reads every channel from end to end to find the annotations while it opens a file, lazily or not;
for an hour of EEG that takes longer than all else together. Here MNE is handed the bytes it looks for.
"""

from typing import Any

from mne.io.edf.edf import RawBDF, RawEDF
from numpy.typing import NDArray

from replay.readers.edf_column import find_annotations

# The parents are called by name: MNE calls these methods with a stand-in for self.


class LazyEdf(RawEDF):  # type: ignore[misc]  # MNE tells no types
    """An EDF or EDF+ file."""

    def _read_segment_file(self, data: NDArray[Any], idx: Any, fi: int, *rest: Any) -> Any:
        found = _annotations_alone(data, self.filenames[fi])
        return found or RawEDF._read_segment_file(self, data, idx, fi, *rest)


class LazyBdf(RawBDF):  # type: ignore[misc]
    """A BDF or BDF+ file."""

    def _read_segment_file(self, data: NDArray[Any], idx: Any, fi: int, *rest: Any) -> Any:
        found = _annotations_alone(data, self.filenames[fi])
        return found or RawBDF._read_segment_file(self, data, idx, fi, *rest)


def _annotations_alone(data: NDArray[Any], path: Any) -> list[NDArray[Any]] | None:
    """MNE asks for no row of the data where it wants nothing but the annotations."""
    column = find_annotations(path) if data.shape[0] == 0 else None
    if column is None:
        return None
    return [column.integers(column.read(0, column.n_samples)).reshape(1, -1)]
