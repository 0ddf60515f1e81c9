"""The process of a submission, in its sandbox and watched, and the pipe to it.

A message on the pipe:

    4 bytes  length of the body, little-endian
    1 byte   kind
    body     nothing, JSON (UTF-8) or a packet

    host -> submission: settings (s), start (b), choose (c), packet (p)
    submission -> host: ask (a), report (r), channels (n), done (d), error (e)

A packet is the only message without JSON, which took a seventh of the time:

    8 bytes  start position
    4        n, samples
    4        channels, TRIGGER last; 0 for the empty last packet of G4
    1        1 on the last packet, the finish flag
    1        1 where a result is due (emotion, ecog)
    6        unused
    then n x channels float32, in the machine's byte order

The other end is in `inside/shim.py`. What it sends is untrusted: its size is bounded and it is validated.
"""

import math
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from bci_stream.packet import FloatArray
from decoders.host.cgroup import ControlGroup, group_place, make_group
from decoders.host.inside import shim
from decoders.host.limits import (
    EnvironmentUnavailable,
    SubmissionCrashed,
    SubmissionDisqualified,
    SubmissionError,
    SubmissionLimits,
    SubmissionStopped,
    SubmissionTimeout,
    escape_text,
)
from decoders.host.prepare import STOP_POLL_S, Prepared
from decoders.host.sandbox import FILTER_FD, Sandbox, SandboxCommand
from decoders.host.watchdog import ProcessTree, Watchdog, exceeded_memory

KINDS = {
    shim.ASK: "ask",
    shim.REPORT: "report",
    shim.CHANNELS: "channels",
    shim.CALIBRATE: "calibrate",
    shim.DONE: "done",
    shim.ERROR: "error",
}
"""The messages that a submission's process may send."""
EXTRA_BYTES = 1024
"""How much longer than the longest report an error or a list of channels may be."""
READ_BYTES = 4096
GRACE_S = 2.0
"""How long a process that is done may take to exit."""
NO_DATA = shim.PACKET_HEAD.pack(0, 0, 0, True, False)
"""The body of G4's last packet."""
FLOAT32 = np.dtype(np.float32)

_ENVIRON = {
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    # One thread each: the same sums in the same order on any machine, and so the same score.
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class PipeMessage(msgspec.Struct, frozen=True):
    """A message of the submission's process: a value of KINDS, and the decoded JSON."""

    kind: str
    value: Any


class PipeClosed(Exception):
    """The submission's process has closed its end: it has exited, or is about to."""


class Pipe:
    """The host's end; every wait has a deadline (of time.monotonic)."""

    def __init__(
        self, connection: socket.socket, report_bytes: int, stop: threading.Event | None = None
    ) -> None:
        connection.setblocking(True)
        self._socket = connection
        self._max_bytes = report_bytes + EXTRA_BYTES
        self._unread = b""
        self._spin = shim.SpinWait(connection)
        self._stop = stop or threading.Event()
        self._timeout_s = math.inf

    def send(self, kind: bytes, body: bytes, deadline: float) -> None:
        unsent = shim.HEAD.pack(len(body), kind) + body
        while unsent:
            sent = self._wait(self._socket.send, unsent, deadline, "read what it asked for")
            unsent = unsent[sent:]

    def receive(self, deadline: float, awaited: str) -> PipeMessage:
        """The next message; `awaited` names what the submission must do, for the error."""
        self._fill(shim.HEAD.size, deadline, awaited)
        length, letter = shim.HEAD.unpack_from(self._unread)
        kind = KINDS.get(letter)
        if kind is None or length > self._max_bytes:
            raise _invalid(f"a message of {length} bytes, of kind {letter!r}")
        end = shim.HEAD.size + length
        self._fill(end, deadline, awaited)
        body, self._unread = self._unread[shim.HEAD.size : end], self._unread[end:]
        try:
            return PipeMessage(kind, msgspec.json.decode(body) if body else None)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _invalid(str(error)) from None

    def close(self) -> None:
        self._socket.close()

    def _fill(self, count: int, deadline: float, awaited: str) -> None:
        """Read until `count` bytes are buffered."""
        while len(self._unread) < count:
            self._spin.wait()
            got = self._wait(self._socket.recv, READ_BYTES, deadline, awaited)
            if not got:
                raise PipeClosed
            self._unread += got

    def _wait(
        self, call: Callable[[Argument], Result], argument: Argument, deadline: float, awaited: str
    ) -> Result:
        """Call a blocking socket method, until the deadline or until the run is stopped."""
        while (left_s := deadline - time.monotonic()) > 0:
            if self._stop.is_set():
                raise SubmissionStopped(f"stopped while the submission had to {awaited}")
            self._set_timeout(min(left_s, STOP_POLL_S))
            try:
                return call(argument)
            except BlockingIOError:
                continue
            except OSError as error:
                raise PipeClosed from error
        raise SubmissionTimeout(f"the submission did not {awaited}")

    def _set_timeout(self, timeout_s: float) -> None:
        """Set by socket option, when it changes: Python's own time-out costs two system calls a read."""
        if timeout_s == self._timeout_s:
            return
        self._timeout_s = timeout_s
        timeval = struct.pack("ll", 0, math.ceil(timeout_s * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)


def packet_body(samples: FloatArray, position: int, finish: bool, due: bool) -> bytes:
    if samples.dtype != FLOAT32:
        samples = samples.astype(FLOAT32)
    return shim.PACKET_HEAD.pack(position, *samples.shape, finish, due) + samples.tobytes()


def _invalid(what: str) -> SubmissionDisqualified:
    return SubmissionDisqualified(
        f"the submission wrote into the pipe that only its host may use: {what}"
    )


class SubmissionProcess:
    """One running submission. Linux kills it when the thread that started it ends."""

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
        self._limits = limits
        place = sandbox.command(prepared, limits)
        group = _group_of(place, limits)
        connection, theirs = socket.socketpair()
        theirs.setblocking(True)  # whatever this process's default is
        with theirs, _readable(place.filter or b"") as program:
            numbers = {FILTER_FD: str(program)}
            command = [*(group.prefix if group else []), *place.command]
            command = [numbers.get(word, word) for word in command]
            try:
                passed = [theirs.fileno(), *([program] if place.filter else [])]
                first = _start([*command, str(theirs.fileno())], passed, place)
            except EnvironmentUnavailable:
                connection.close()
                if group is not None:
                    group.remove()
                raise
        assert first.stdout is not None
        self._tree = ProcessTree(first, place.user, group)
        try:
            self._watchdog = Watchdog(self._tree, first.stdout, log, limits, place.scratch)
        except OSError:  # its log can't be made
            connection.close()
            first.stdout.close()
            self._tree.kill()
            if group is not None:
                group.remove()
            raise
        self._pipe = Pipe(connection, limits.report_bytes, stop)
        self._watchdog.start()
        sent = {
            **settings,
            "package": place.package,
            "work": place.work,
            "report_bytes": limits.report_bytes,
        }
        self.send(shim.SETTINGS, msgspec.json.encode(sent), time.monotonic() + limits.start_s)

    def send(self, kind: bytes, body: bytes, deadline: float) -> None:
        try:
            self._pipe.send(kind, body, deadline)
        except PipeClosed:
            raise self._cause_of_exit() from None

    def receive(self, deadline: float, awaited: str) -> PipeMessage:
        """Its next message. Raises a SubmissionError with the cause if it has exited."""
        try:
            message = self._pipe.receive(deadline, awaited)
        except PipeClosed:
            raise self._cause_of_exit() from None
        if message.kind == "error":
            raise SubmissionCrashed(
                f"the submission failed: {escape_text(str(message.value), 500)}; its log is {self.log}"
            )
        return message

    def close(self, grace_s: float = 0.0) -> None:
        """Kill all its processes, and wait until they have exited and its output is written."""
        self._pipe.close()
        self._watchdog.join(grace_s)
        self._tree.kill()
        self._watchdog.join()
        if self._tree.group is not None:
            self._tree.group.remove()

    def _cause_of_exit(self) -> SubmissionError:
        """Why its end of the pipe is closed."""
        self._watchdog.join(GRACE_S)
        if self._watchdog.error is not None:
            return self._watchdog.error
        if self._tree.group is not None and self._tree.group.exceeded_memory():
            return exceeded_memory(self._limits)
        how = _describe_exit(self._tree.first.poll())
        return SubmissionCrashed(f"the submission {how} before the data did; its log is {self.log}")


def _describe_exit(code: int | None) -> str:
    """A shell, and bubblewrap, return 128 + signal; Python's subprocess -signal."""
    if code is None:
        return "closed its pipe to the host"
    number = -code if code < 0 else code - 128
    names = {each.value: each.name for each in signal.Signals}
    return f"was ended by {names[number]}" if number in names else f"ended with exit code {code}"


def _group_of(place: SandboxCommand, limits: SubmissionLimits) -> ControlGroup | None:
    """Its control group, where one can be made."""
    parent, _ = group_place()
    if parent is None:
        return None
    return make_group(parent, limits, place.memory_disk_bytes)


@contextmanager
def _readable(data: bytes) -> Iterator[int]:
    """The file descriptor of a pipe that holds these few bytes."""
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        yield reader
    finally:
        os.close(reader)


def _start(command: list[str], passed: list[int], place: SandboxCommand) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=passed,
            env={
                **_ENVIRON,
                "HOME": place.home,
                "TMPDIR": place.home,
                "PYTHONPATH": place.site,
            },
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        raise EnvironmentUnavailable(
            f"the submission's process can't be started: {error}"
        ) from error
