"""The pipe to a submission's process: short messages and packets, to and fro; no pickle.

    4 bytes  length of the body, little-endian
    1 byte   kind
    body     nothing, JSON (UTF-8) or a packet

    host -> submission: settings (s), start (b), choose (c), packet (p)
    submission -> host: ask (a), report (r), channels (n), done (d), error (e)

    a packet: 8 bytes  start position
              4        n, samples
              4        channels, TRIGGER the last; 0 where there is no data, at the end of G4
              1        1 on the last packet, the finish flag
              1        1 where a result is due: it is asked for (emotion, ecog)
              6        nothing
              then n x channels float32, in the machine's own order

A packet is the one message without JSON, which took a seventh of its way.
The other end is in `shim.py`. What comes from there is a stranger's: it is bounded and validated.
"""

import math
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np

from bci_stream.packet import FloatArray
from decoders.host import shim
from decoders.host.errors import SubmissionDisqualified, SubmissionStopped, SubmissionTimeout

KINDS = {
    shim.ASK: "ask",
    shim.REPORT: "report",
    shim.CHANNELS: "channels",
    shim.DONE: "done",
    shim.ERROR: "error",
}
"""What a submission's process may say."""

ROOM_BYTES = 1024
"""What an error or a list of channels may have beyond the longest report."""

READ_BYTES = 4096
STOP_LOOK_S = 0.5
"""How long a wait may go on after the run was told to stop."""

NO_DATA = shim.PACKET_HEAD.pack(0, 0, 0, True, False)
"""The body of G4's last packet."""

FLOAT32 = np.dtype(np.float32)

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class PipeMessage(msgspec.Struct, frozen=True):
    """What a submission's process has said."""

    kind: str
    value: Any


class PipeClosed(Exception):
    """The submission's process has closed its end: it has ended, or is about to."""


class Pipe:
    """The host's end; every wait has a deadline (of time.monotonic)."""

    def __init__(
        self, ours: socket.socket, report_bytes: int, stop: threading.Event | None = None
    ) -> None:
        ours.setblocking(True)
        self._socket = ours
        self._most_bytes = report_bytes + ROOM_BYTES
        self._unread = b""
        self._lookout = shim.SpinWait(ours)
        self._stop = stop or threading.Event()
        self._most_sleep_s = math.inf

    def send(self, kind: bytes, body: bytes, deadline: float) -> None:
        unsent = shim.HEAD.pack(len(body), kind) + body
        while unsent:
            sent = self._wait(self._socket.send, unsent, deadline, "read what it asked for")
            unsent = unsent[sent:]

    def receive(self, deadline: float, awaited: str) -> PipeMessage:
        """The next message; `awaited` says in words what the submission has to do."""
        self._fill(shim.HEAD.size, deadline, awaited)
        length, letter = shim.HEAD.unpack_from(self._unread)
        kind = KINDS.get(letter)
        if kind is None or length > self._most_bytes:
            raise _garbled(f"a message of {length} bytes, of kind {letter!r}")
        end = shim.HEAD.size + length
        self._fill(end, deadline, awaited)
        body, self._unread = self._unread[shim.HEAD.size : end], self._unread[end:]
        try:
            return PipeMessage(kind, msgspec.json.decode(body) if body else None)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _garbled(str(error)) from None

    def close(self) -> None:
        self._socket.close()

    def _fill(self, count: int, deadline: float, awaited: str) -> None:
        """Read until so many bytes are there."""
        while len(self._unread) < count:
            self._lookout.look()
            got = self._wait(self._socket.recv, READ_BYTES, deadline, awaited)
            if not got:
                raise PipeClosed
            self._unread += got

    def _wait(
        self, call: Callable[[Argument], Result], argument: Argument, deadline: float, awaited: str
    ) -> Result:
        """What the call gives, before the deadline and before the run is told to stop."""
        while (left_s := deadline - time.monotonic()) > 0:
            if self._stop.is_set():
                raise SubmissionStopped(f"stopped while the submission had to {awaited}")
            self._sleep_at_most(min(left_s, STOP_LOOK_S))
            try:
                return call(argument)
            except BlockingIOError:
                continue
            except OSError as error:
                raise PipeClosed from error
        raise SubmissionTimeout(f"the submission did not {awaited}")

    def _sleep_at_most(self, most_s: float) -> None:
        """Told to the system once: Python's own time-outs would cost two system calls each time."""
        if most_s == self._most_sleep_s:
            return
        self._most_sleep_s = most_s
        timeval = struct.pack("ll", 0, math.ceil(most_s * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)


def packet_body(samples: FloatArray, position: int, finish: bool, due: bool) -> bytes:
    if samples.dtype != FLOAT32:
        samples = samples.astype(FLOAT32)
    return shim.PACKET_HEAD.pack(position, *samples.shape, finish, due) + samples.tobytes()


def _garbled(what: str) -> SubmissionDisqualified:
    return SubmissionDisqualified(
        f"the submission wrote into the pipe to its host, which is the host's alone: {what}"
    )
