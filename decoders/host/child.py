"""A child is a submission's running process: in its sandbox, watched, spoken to by the pipe."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from decoders.host.errors import EnvironmentFailed, SubmissionCrashed, SubmissionError, escape_text
from decoders.host.limits import SubmissionLimits
from decoders.host.pipe import Pipe, PipeClosed, PipeMessage
from decoders.host.prepared import Prepared
from decoders.host.sandbox import FILTER_FD, Sandbox
from decoders.host.shim import SETTINGS
from decoders.host.watchdog import ProcessTree, Watchdog

SHIM = Path(__file__).with_name("shim.py")
GRACE_S = 2.0

_ENVIRON = {
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    # One thread each: the same sums in the same order on any machine, so the same score.
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class SubmissionProcess:
    """One running submission. Linux ends it with the thread that it was started from."""

    def __init__(
        self,
        prepared: Prepared,
        sandbox: Sandbox,
        settings: Mapping[str, Any],
        limits: SubmissionLimits,
        log: Path,
        stop: threading.Event | None = None,
    ) -> None:
        self.log = log
        cell = sandbox.cell(prepared, SHIM, limits)
        ours, theirs = socket.socketpair()
        theirs.setblocking(True)  # whatever this process's default is
        with theirs, _readable(cell.filter or b"") as program:
            numbers = {FILTER_FD: str(program)}
            command = [numbers.get(word, word) for word in cell.command]
            try:
                passed = [theirs.fileno(), *([program] if cell.filter else [])]
                first = _started([*command, str(theirs.fileno())], passed, cell.home)
            except EnvironmentFailed:
                ours.close()
                raise
        assert first.stdout is not None
        self._family = ProcessTree(first, cell.user)
        self._warden = Watchdog(self._family, first.stdout, log, limits, cell.scratch)
        self._pipe = Pipe(ours, limits.report_bytes, stop)
        self._warden.start()
        place = {"package": cell.package, "work": cell.work, "user": cell.user}
        rlimits = {**limits.rlimits(), "NPROC": cell.threads}
        told = {**settings, **place, "rlimits": rlimits, "report_bytes": limits.report_bytes}
        self.send(SETTINGS, msgspec.json.encode(told), time.monotonic() + limits.start_s)

    def send(self, kind: bytes, body: bytes, deadline: float) -> None:
        try:
            self._pipe.send(kind, body, deadline)
        except PipeClosed:
            raise self._fate() from None

    def receive(self, deadline: float, awaited: str) -> PipeMessage:
        """Its next message; what ended it, if it has ended."""
        try:
            message = self._pipe.receive(deadline, awaited)
        except PipeClosed:
            raise self._fate() from None
        if message.kind == "error":
            raise SubmissionCrashed(
                f"the submission failed: {escape_text(str(message.value), 500)}; its log is {self.log}"
            )
        return message

    def close(self, grace_s: float = 0.0) -> None:
        """End it, whatever it does, and wait until it has ended and its output is kept."""
        self._pipe.close()
        self._warden.join(grace_s)
        self._family.end()
        self._warden.join()

    def _fate(self) -> SubmissionError:
        """Why its end of the pipe is closed."""
        self._warden.join(GRACE_S)
        if self._warden.verdict is not None:
            return self._warden.verdict
        how = _ended_how(self._family.first.poll())
        return SubmissionCrashed(f"the submission {how} before the data did; its log is {self.log}")


def _ended_how(code: int | None) -> str:
    """A shell, and bubblewrap, tell a signal as 128 and more; Python as less than 0."""
    if code is None:
        return "closed its pipe to the host"
    number = -code if code < 0 else code - 128
    names = {each.value: each.name for each in signal.Signals}
    return f"was ended by {names[number]}" if number in names else f"ended with exit code {code}"


@contextmanager
def _readable(data: bytes) -> Iterator[int]:
    """The number of a pipe from which these few bytes can be read."""
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        yield reader
    finally:
        os.close(reader)


def _started(command: list[str], passed: list[int], home: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=passed,
            env={**_ENVIRON, "HOME": home, "TMPDIR": home},
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        raise EnvironmentFailed(f"the submission's process can't be started: {error}") from error
