"""Fixtures: small recordings of every format, and the folder of real ones."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_recordings import (
    PARAMETERS,
    WRITERS,
    XdfWriter,
    counted_rows,
    stim_row,
    stream_header,
    write_recording,
)

from replay.readers.guard import run_child


@pytest.fixture(scope="session")
def counted() -> np.ndarray:
    """(leads, samples) in whole microvolts; the last lead counts samples."""
    samples = counted_rows()
    samples.setflags(write=False)
    return samples


@pytest.fixture(scope="session")
def stim() -> np.ndarray:
    return stim_row()


@pytest.fixture
def write(tmp_path) -> Callable[[str], Path]:
    """write("run.edf"): a small recording of that format."""
    return lambda name: write_recording(name, tmp_path)


@pytest.fixture(scope="module", params=list(WRITERS))
def recording(request, tmp_path_factory) -> str:
    """The URI of a small recording, of each format in turn."""
    path = write_recording(request.param, tmp_path_factory.mktemp("recording"))
    return f"{path}{PARAMETERS.get(request.param, '')}"


@pytest.fixture
def unprobed(monkeypatch: pytest.MonkeyPatch) -> None:
    """MATLAB files are read at once, without the child process that first tries whether they crash scipy.

    For files that a test wrote itself: the child takes half a second. test_faithful and test_bad_input
    have it.
    """

    def run_unless_matlab(path: Path, form: str, *rest: Any, **options: Any) -> Any:
        return None if form == "MATLAB" else run_child(path, form, *rest, **options)

    monkeypatch.setattr("replay.readers.guard.run_child", run_unless_matlab)


@pytest.fixture
def real_data() -> Path:
    """The folder of real recordings; tests that need it skip where it is absent."""
    root = Path(__file__).parents[2]
    folder = Path(os.environ.get("BCI_DATA", root.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real recordings in {folder}; set BCI_DATA to a folder that has them")
    return folder


@pytest.fixture
def xdf_writer() -> Callable[..., None]:
    """Write an XDF with these streams; stream k holds 1000 k, 1000 k + 1, ..."""

    def write_streams(path: Path, streams) -> None:
        with path.open("wb") as file:
            writer = XdfWriter(file)
            for number, (name, kind) in enumerate(streams, 1):
                writer.stream(number, stream_header(name, kind, 1, 100, "float32", ""))
                values = 1000 * number + np.arange(50, dtype=np.float32)[:, None]
                writer.samples(number, values, np.arange(50) / 100)
                writer.finish(number, 0.0, 0.49, 50)

    return write_streams
