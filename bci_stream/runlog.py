"""Run logs: JSON lines, one event a line, in the order in which the judge settled them.

The score is a pure function of this file (see docs/tracks.md). A log that can't be read is not scored:
the error names the line. Since version 2 each line ends with a hash of itself and the line before it
(docs/run-log.md), so that `bci-judge verify` finds a line that was changed, removed, added or moved.
"""

import gzip
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bci_stream.errors import LogError, RuleError
from tracks.run import Run

LOG_VERSION = 2
"""Of new logs. Logs of version 1 have no hash chain."""

CHAIN_START = "0" * 64
"""What stands for the hash of the line before the first one."""

_CUT_OFF = "; it is the last one and was cut off: delete it to score the rest"
_LONGEST_INT = 4300  # digits; Python refuses to read a longer one, and no result is that large


def score_run(path: Path) -> Run:
    """Score a log. Raises LogError if it can't be read, or has no run line or no truth."""
    run, number = Run(), 0
    for number, event in read_log(path):
        try:
            run.feed(event)
        except RuleError as error:
            raise LogError(f"{path}, line {number}: {error}") from None
    if run.track is None:
        raise LogError(f"{path}, line {number + 1}: the log ends without a run line")
    if not run.has_truth:
        raise LogError(
            f"{path}, line {number + 1}: the log ends without a truth line, so it can't be scored "
            "(a log that is published before its contest ends has none)"
        )
    return run


def read_log(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, event) of each line that is not blank. Reads `.gz`, too."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, parse_line(path, number, line)
    except (OSError, EOFError, zlib.error) as error:
        raise LogError(f"can't read the log {path}: {error}") from None


def parse_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        event = _decode(line)
    except (ValueError, RecursionError) as error:
        cut = "" if line.endswith(b"\n") else _CUT_OFF
        raise LogError(f"{path}, line {number}: not a line of JSON ({error}){cut}") from None
    if not isinstance(event, dict):
        raise LogError(f"{path}, line {number}: must be an object; got {event!r:.60}")
    return event


def _decode(line: bytes) -> Any:
    """msgspec is fast and strict; Python's reader also accepts NaN, 1e999 and the like."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(line.decode("utf-8-sig"), parse_int=_read_int)


def _read_int(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONGEST_INT else float(digits)


# --- hash chain -------------------------------------------------------------------------------

_HASH_LENGTH = len(',"h":""}') + 64


def chain_hash(previous: str, unhashed: bytes) -> str:
    """`h` of a line, in hexadecimal; previous: `h` of the line before. unhashed: the line without `h`."""
    return sha256(previous.encode() + unhashed).hexdigest()


def with_hash(unhashed: bytes, digest: str) -> bytes:
    """A line without its newline: the object with `h` as its last field."""
    return b'%b,"h":"%b"}' % (unhashed[:-1], digest.encode())


def split_hash(line: bytes) -> tuple[bytes, str]:
    """(the object without `h`, `h`) of a line without its newline; `h` is empty if the line has none."""
    unhashed, digest = line[:-_HASH_LENGTH] + b"}", line[-_HASH_LENGTH + 6 : -2].decode("latin-1")
    if len(digest) == 64 and set(digest) <= _HEX and with_hash(unhashed, digest) == line:
        return unhashed, digest
    return line, ""


_HEX = frozenset("0123456789abcdef")


# --- writing ----------------------------------------------------------------------------------


def make_runs_folder(folder: Path) -> None:
    """Create the folder of run logs, which hold truth: only its owner may open it (mode 0700)."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


class RunLog:
    """A log that is written line by line; written lines are never changed.

    Lines are kept until `flush`, which gives them to the operating system; `sync` writes them to disk, too.
    Only the owner may read the file (mode 0600). Methods raise LogError if the log can't be written.

    head: `h` of the last line; empty in a log that was begun without a hash chain. lines: how many there are.
    """

    def __init__(self, path: Path, *, append: bool = False) -> None:
        """append: continue a log that a judge left unfinished."""
        self.path = path
        try:
            self._file = open(  # noqa: SIM115 - closed by `close`
                path, "ab" if append else "xb", buffering=0, opener=_open_private
            )
            self.head, self.lines = _end_of_chain(path)
            self._unwritten: list[bytes] = []
            self._written_to = self.head, self.lines
        except FileExistsError:
            raise LogError(f"the log {path} exists already: a log is never overwritten") from None
        except OSError as error:
            raise LogError(f"can't write the log {path}: {error}") from None

    def write(self, event: Mapping[str, Any]) -> None:
        self.write_object(encode(event)[:-1])

    def write_object(self, line: bytes) -> None:
        """Write a line that is a JSON object already, such as a signed one."""
        if self.head:
            self.head = chain_hash(self.head, line)
            line = with_hash(line, self.head)
        self._unwritten.append(line)
        self.lines += 1

    def flush(self) -> None:
        if not self._unwritten:
            return
        left = memoryview(b"\n".join([*self._unwritten, b""]))
        self._unwritten.clear()
        try:
            while left:  # a write may be partial, as on a disk that is nearly full
                left = left[self._file.write(left) :]
        except OSError as error:
            self.head, self.lines = self._written_to
            raise self._error(error) from error
        self._written_to = self.head, self.lines

    def fileno(self) -> int:
        return self._file.fileno()

    def reread_end(self) -> None:
        """Continue behind what another process has written meanwhile."""
        self.head, self.lines = _end_of_chain(self.path)

    def sync(self) -> None:
        self.flush()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> LogError:
        return LogError(
            f"can't write the run log {self.path}: {error.strerror or error}. Nothing is lost: make "
            "room and start the judge again while the replay waits; it continues the log"
        )

    def close(self) -> None:
        if not self._file.closed:
            self.sync()
            self._file.close()


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _end_of_chain(path: Path) -> tuple[str, int]:
    """Where a log goes on: the last `h` and the number of lines."""
    content = path.read_bytes() if path.is_file() else b""  # a device has no lines
    if not content:
        return CHAIN_START, 0
    start = content.rfind(b"\n", 0, -1) + 1
    return split_hash(content[start:].rstrip(b"\n"))[1], content.count(b"\n")


def encode(event: Mapping[str, Any]) -> bytes:
    """An event as one line. NaN and infinity, which JSON does not have, become null."""
    try:
        text = _encoder.encode(event)
    except ValueError:
        text = _encoder.encode(_finite(event))
    return text.encode() + b"\n"


def _plain(value: object) -> object:
    """NumPy numbers and arrays as Python numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return _finite(value.tolist())
    raise TypeError(f"{type(value).__name__} can't be written to a run log")


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain)


def earlier_logs(runs: Path, run_id: str) -> Iterator[tuple[str, Path, list[dict[str, Any]]]]:
    """Yield (team, log, events) of each log of this run; a run that has ended has an end line."""
    for path in sorted(runs.glob(f"*-{run_id}.jsonl")):
        drop_cut_line(path)
        try:
            events = [event for _, event in read_log(path)]
        except LogError:
            continue  # left alone; `bci-judge score` shows what is wrong with it
        if events:
            yield str(events[0]["team"]), path, events


def drop_cut_line(path: Path) -> None:
    """Remove an incomplete last line, which was being written when the judge died and was not published."""
    with path.open("r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
