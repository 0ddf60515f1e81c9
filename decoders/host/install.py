"""Runs the installer of an environment (uv or pip) with limits, and attributes its failures.

The host's: the registry is out of reach, a download fails, the disk is full, time is up. The run has
not begun, ends as `stopped`, and is tried again. The team's: a name or a pin that no wheel satisfies.
"""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from decoders.host.limits import (
    GIB,
    EnvironmentFailed,
    EnvironmentUnavailable,
    SubmissionStopped,
    escape_text,
)

logger = logging.getLogger(__name__)

BUILD_S = 1800.0
"""The longest time for one environment."""
MOST_BYTES = 20 * GIB
"""The largest environment."""
PROGRESS_S = 15.0
POLL_S = 0.2
SHOWN_LINES = 8
LAUNCH = Path(__file__).parent / "inside" / "launch.py"

HOST_FAULTS = {
    r"No space left on device|os error 28\b|Disk quota exceeded": "the disk is full",
    r"network was disabled|--offline": "the network is disabled",
    r"Read-only file system|Permission denied": "the host may not write a file",
    r"error sending request|Failed to fetch|Failed to download|dns error|tcp connect error"
    r"|Connection (refused|reset|aborted)|Name or service not known|name resolution"
    r"|Max retries exceeded|connection broken|Retrying \(Retry|[Tt]imed out|HTTP error 5\d\d"
    r"|Server Error|incomplete message|IncompleteRead|ProtocolError|Network is unreachable"
    r"|DO NOT MATCH THE HASHES|Hash mismatch|Wheel '.*' located at .* is invalid": (
        "the package registry can't be reached, or a download failed"
    ),
}
"""Parts of an installer's output, by pattern -> what has failed on the host's side."""


def uv_program() -> str | None:
    """uv on the path, or beside this interpreter; None: pip is used."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


class NoWheels(EnvironmentFailed):
    """The installer can't satisfy the requirements. `output`: its last lines."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


@dataclass(frozen=True, slots=True)
class Installation:
    """One environment that is being made.

    lock: a file descriptor that the installer inherits, so that it holds the lock even if its host is
    killed. title: for the progress line.
    """

    folder: Path
    title: str
    lock: int
    stop: threading.Event

    def run(self, command: Sequence[str]) -> None:
        """Run one command. Raises NoWheels, EnvironmentUnavailable or SubmissionStopped."""
        with tempfile.TemporaryFile() as output:
            process = self._start(command, output.fileno())
            try:
                self._wait(process)
            finally:
                _end(process)
            output.seek(0)
            printed = output.read().decode(errors="replace")
        if process.returncode != 0:
            raise failure(command, printed)

    def _start(self, command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ended_with_host(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[self.lock],
                start_new_session=True,
                cwd=self.folder.parent,  # uv reads settings of the folder that it is started in
                umask=0o022,  # the submission's own user must read what is installed
            )
        except OSError as error:
            raise EnvironmentUnavailable(f"{command[0]} can't be started: {error}") from None

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        begun = time.monotonic()
        next_line_s = PROGRESS_S
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
                return
            used_s = time.monotonic() - begun
            if self.stop.is_set():
                raise SubmissionStopped("stopped while the submission's environment was made")
            if used_s > BUILD_S:
                raise EnvironmentUnavailable(
                    f"the submission's environment was not made within {BUILD_S:g} s ({self.title})"
                )
            if used_s > next_line_s:
                next_line_s += PROGRESS_S
                self._check_size(used_s)

    def _check_size(self, used_s: float) -> None:
        size = tree_bytes(self.folder)
        logger.info("still installing %s: %d MiB after %d s", self.title, size >> 20, used_s)
        if size > MOST_BYTES:
            raise EnvironmentFailed(
                f"the submission's environment is larger than {MOST_BYTES // GIB} GiB ({self.title})"
            )


def ended_with_host(command: Sequence[str]) -> list[str]:
    """The command, started by a launcher that lets Linux end it with this process."""
    settings = {"user": None, "rlimits": {"CORE": 0}, "parent": os.getpid()}
    return [sys.executable, "-I", "-S", str(LAUNCH), json.dumps(settings), *command]


def failure(command: Sequence[str], printed: str) -> EnvironmentFailed:
    """The error for an installer that failed, by what it printed."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    shown = escape_text(" ".join(lines[-SHOWN_LINES:]))
    name = Path(command[0]).name
    for pattern, fault in HOST_FAULTS.items():
        if re.search(pattern, printed):
            return EnvironmentUnavailable(
                f"the submission's environment can't be made now: {fault}; this is no fault of the "
                f"team, try again later. {name} printed: {shown}"
            )
    return NoWheels(
        f"the submission's requirements can't be installed; {name} printed: {shown}", shown
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the installer and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def tree_bytes(folder: Path) -> int:
    """The size on disk of all files below a folder, in bytes; those that vanish meanwhile count 0."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
    return total
