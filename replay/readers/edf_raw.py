"""EDF and BDF as MNE opens them, but for two things that for an hour of EEG take longer than all else.

MNE reads every channel from end to end to find the annotations while it opens a file, lazily or not: here
it is handed the bytes it looks for. Then it makes a deep copy of each annotation to crop it to the
recording: here they stay as they were found, and `events_of_raw` leaves out, and tells, what lies outside.

And units are the header's: MNE takes "uv" or "nV" for volts, and forgets any that it does not know.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mne.io.edf.edf import RawBDF, RawEDF
from numpy.typing import NDArray

from replay.readers.edf_column import find_annotations
from replay.readers.edf_header import EdfHeader, read_edf_header
from replay.readers.mne_signal import tell_units


class _Lazy:
    """What is different from MNE's own, whichever of its classes reads the samples."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        header = read_edf_header(Path(path))
        with _unclosed_is_said(header):
            super().__init__(path, **options)  # type: ignore[call-arg]  # MNE's class stands behind this one
        if header is not None:
            tell_units(self, header.fields["unit"])

    def set_annotations(self, annotations: Any, *rest: Any, **options: Any) -> Any:
        kept = _kept(self, annotations)
        return kept or super().set_annotations(annotations, *rest, **options)  # type: ignore[misc]


# Not in the class above, and the parents by name: MNE calls this method with a stand-in for self.


class LazyEdf(_Lazy, RawEDF):  # type: ignore[misc]  # MNE tells no types
    """An EDF or EDF+ file."""

    def _read_segment_file(self, data: NDArray[Any], idx: Any, fi: int, *rest: Any) -> Any:
        found = _annotations_alone(data, self.filenames[fi])
        return found or RawEDF._read_segment_file(self, data, idx, fi, *rest)


class LazyBdf(_Lazy, RawBDF):  # type: ignore[misc]
    """A BDF or BDF+ file."""

    def _read_segment_file(self, data: NDArray[Any], idx: Any, fi: int, *rest: Any) -> Any:
        found = _annotations_alone(data, self.filenames[fi])
        return found or RawBDF._read_segment_file(self, data, idx, fi, *rest)


@contextmanager
def _unclosed_is_said(header: EdfHeader | None) -> Iterator[None]:
    """A file that was never closed gives no number of records: that is no sign that any is missing."""
    if header is None or not header.is_unclosed:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Number of records from the header")
        yield
    warnings.warn(
        "it was never closed (did its recorder crash?): it is played as far as whole records go",
        stacklevel=2,
    )


def _annotations_alone(data: NDArray[Any], path: Any) -> list[NDArray[Any]] | None:
    """MNE asks for no row of the data where it wants nothing but the annotations."""
    column = find_annotations(path) if data.shape[0] == 0 else None
    if column is None:
        return None
    return [column.integers(column.read(0, column.n_samples)).reshape(1, -1)]


def _kept(raw: Any, annotations: Any) -> Any:
    """The raw object with these annotations where they count from its first sample, else None."""
    if annotations is None or annotations.orig_time is not None or raw.first_samp != 0:
        return None
    annotations._orig_time = raw.info["meas_date"]
    raw._annotations = annotations
    return raw
