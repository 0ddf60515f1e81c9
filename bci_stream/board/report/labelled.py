"""Labelled recordings for a report: anything that `bci-replay` plays, as MNE's raw.

What MNE reads is read at once. For the rest the judge starts `bci-replay prepare`, which turns any
source into contest files (docs/recordings-npz.md); it imports no replay.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mne
import numpy as np

from bci_stream.errors import SourceError

PREPARE_S = 600.0


def read_labelled(source: str, track: str) -> Iterator[tuple[str, Any]]:
    """(name, raw) of each subject's recording; SourceError where there is none."""
    path = Path(source)
    if path.suffix == ".npz" and path.is_file():
        yield path.name, read_contest_file(path)
        return
    raw = _read_with_mne(path) if path.exists() else None
    if raw is not None:
        yield path.name, raw
        return
    with TemporaryDirectory(prefix="bci-report-") as folder:
        for made in _prepare(source, track, Path(folder)):
            yield f"{path.name} {made.stem}", read_contest_file(made)


def _read_with_mne(path: Path) -> Any | None:
    try:
        return mne.io.read_raw(path, preload=True, verbose="error")
    except (OSError, ValueError, NotImplementedError, RuntimeError):
        return None


def _prepare(source: str, track: str, folder: Path) -> list[Path]:
    command = [sys.executable, "-m", "replay", "prepare", source, "--track", track]
    try:
        done = subprocess.run(
            [*command, "--out", str(folder)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PREPARE_S,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{source} could not be read within {PREPARE_S:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        why = said[-1].removeprefix("Error: ")
        raise SourceError(f"{source} can't be read as a labelled recording of {track}: {why}")
    return sorted((folder / "organiser").glob("*.npz"))


def read_contest_file(path: Path) -> Any:
    """A contest file as MNE's raw, with its triggers as a stimulus channel."""
    try:
        with np.load(path, allow_pickle=False) as file:
            data, rate = file["data"].astype(np.float64), float(file["rate"])
            leads, kinds = file["leads"].tolist(), file["kinds"].tolist()
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise SourceError(f"{path} can't be read as a contest file: {error}") from error
    data[:-1] *= 1e-6
    info = mne.create_info([*leads, "TRIGGER"], rate, [*map(str.lower, kinds), "stim"])
    return mne.io.RawArray(data, info, verbose="error")
