"""The pipe to a submission's process: messages of a JSON header and float32 samples; no pickle.

    4 bytes  length of the header, little-endian
    4 bytes  length of the samples
    header   JSON, UTF-8
    samples  float32, little-endian, (n, leads + 1), after a packet's header only

    host -> submission: settings, start, choose, packet
    submission -> host: ask, report, channels, done, error

Its other end is in `shim.py`. What comes from there is a stranger's: it is bounded and validated.
"""

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from bci_stream.packet import FloatArray
from decoders.host.errors import SubmissionDisqualified, SubmissionStopped, SubmissionTimeout
from decoders.host.shim import Spin

PREFIX = struct.Struct("<II")
HEADER_ROOM = 1024
"""What a message may have around the report in it."""

STOP_LOOK_S = 0.5
"""How long a wait may go on after the run was told to stop."""


Way: TypeAlias = tuple[select.poll, Spin]
"""In or out: how to wait for it asleep, and how awake."""

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Message(msgspec.Struct, frozen=True):
    """What a submission's process may say."""

    kind: Literal["ask", "report", "channels", "done", "error"]
    value: Any = None


class PipeClosed(Exception):
    """The submission's process has closed its end: it has ended, or is about to."""


class Pipe:
    """The host's end; every wait has a deadline (of time.monotonic)."""

    def __init__(
        self, ours: socket.socket, report_bytes: int, stop: threading.Event | None = None
    ) -> None:
        ours.setblocking(False)
        self._socket = ours
        self._in, self._out = _way(ours, select.POLLIN), _way(ours, select.POLLOUT)
        self._most_bytes = report_bytes + HEADER_ROOM
        self._decoder = msgspec.json.Decoder(Message)
        self._waiting = bytearray()
        self._stop = stop or threading.Event()

    def send(
        self, header: dict[str, Any], deadline: float, samples: FloatArray | None = None
    ) -> None:
        text = msgspec.json.encode(header)
        body = memoryview(b"")
        if samples is not None and samples.size:
            body = samples.data.cast("B")
        parts = [memoryview(PREFIX.pack(len(text), len(body)) + text), body]
        looks = self._looks(self._out, deadline, "read what it asked for")
        while parts:
            parts = _unsent(parts, _first(looks, self._socket.sendmsg, parts))

    def receive(self, deadline: float, awaited: str) -> Message:
        """The next message; `awaited` says in words what the submission has to do."""
        header_bytes, sample_bytes = PREFIX.unpack(self._exactly(PREFIX.size, deadline, awaited))
        if sample_bytes or header_bytes > self._most_bytes:
            raise _garbled(f"a message of {header_bytes + sample_bytes} bytes")
        text = self._exactly(header_bytes, deadline, awaited)
        try:
            return self._decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _garbled(str(error)) from None

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int, deadline: float, awaited: str) -> bytes:
        looks = self._looks(self._in, deadline, awaited)
        while len(self._waiting) < count:
            got = _first(looks, self._socket.recv, 4096)
            if not got:
                raise PipeClosed
            self._waiting += got
        taken = bytes(self._waiting[:count])
        del self._waiting[:count]
        return taken

    def _looks(self, way: Way, deadline: float, awaited: str) -> Iterator[None]:
        """Every moment worth a look, until the deadline or until the run is told to stop."""
        poll, spin = way
        spin_until = spin.until(time.monotonic())
        while (now := time.monotonic()) < deadline:
            if self._stop.is_set():
                raise SubmissionStopped(f"stopped while the submission had to {awaited}")
            if now >= spin_until:
                if spin_until:
                    spin.in_vain()
                    spin_until = 0.0
                self._sleep(poll, deadline - now)
            yield
        raise SubmissionTimeout(f"the submission did not {awaited}")

    def _sleep(self, poll: select.poll, most_s: float) -> None:
        poll.poll(min(most_s, STOP_LOOK_S) * 1000 + 1)


def _way(ours: socket.socket, event: int) -> Way:
    poll = select.poll()
    poll.register(ours, event)
    return poll, Spin()


def _first(looks: Iterator[None], call: Callable[[Argument], Result], argument: Argument) -> Result:
    """What the call gives at the first look at which it need not wait."""
    for _ in looks:
        try:
            return call(argument)
        except BlockingIOError:
            continue
        except OSError as error:
            raise PipeClosed from error
    raise AssertionError("a wait ends by its result or by its own error")


def _garbled(what: str) -> SubmissionDisqualified:
    return SubmissionDisqualified(
        f"the submission wrote into the pipe to its host, which is the host's alone: {what}"
    )


def _unsent(parts: list[memoryview], sent: int) -> list[memoryview]:
    """What is left of the parts after so many bytes of them were sent."""
    left = []
    for part in parts:
        if sent < len(part):
            left.append(part[sent:])
        sent = max(0, sent - len(part))
    return left
