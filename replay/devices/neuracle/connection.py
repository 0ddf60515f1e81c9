"""A link is one connection to a device; a dialer makes them, and ends all waits when closed."""

import contextlib
import os
import select
import socket
import time
from typing import Protocol

RECV_BYTES = 1 << 16

AWAKE_S = 5e-4
"""How long before and after the moment they are due bytes are looked for without sleeping,"""
MOST_AWAKE = 0.02
"""but each no longer than this share of the time between them."""
FORGET = 0.1
"""How much of their lateness is believed to last: those that were quickest tell when they are due."""


class UnknownHostError(OSError):
    """A name that no name server knows, now."""


class Connection(Protocol):
    def receive(
        self, timeout_s: float, least_bytes: int = 1, period_s: float = 0.0
    ) -> bytes | None:
        """What has come: b"" at the end, None where nothing came in time. Raises OSError.

        least_bytes: it is waited for so many, but no longer than timeout_s; then fewer will do.
        period_s: how long after the last ones they are likely to be there; 0 where nobody knows.
        """

    def send(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Dialer(Protocol):
    @property
    def address(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def dial(self, timeout_s: float) -> Connection:
        """Raises OSError where nobody answers."""

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond close()."""

    def close(self) -> None:
        """From any thread: every wait of this dialer and of its links ends at once."""


def host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TcpDialer:
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._wake, self._waker = socket.socketpair()
        self.closed = False

    @property
    def address(self) -> str:
        return host_and_port(self._host, self._port)

    def dial(self, timeout_s: float) -> "TcpConnection":
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise UnknownHostError(f"no host is named {self._host!r} ({error})") from None
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            self._connect(sock, address, timeout_s)
        except OSError:
            sock.close()
            raise
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return TcpConnection(sock, self._wake)

    def _connect(self, sock: socket.socket, address: tuple[object, ...], timeout_s: float) -> None:
        sock.setblocking(False)
        code = sock.connect_ex(address)
        _, writable, _ = select.select([self._wake], [sock], [sock], timeout_s if code else 0)
        if not writable:
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))

    def pause(self, seconds: float) -> None:
        select.select([self._wake], [], [], max(0.0, seconds))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._waker.send(b"x")  # never read: from now on every wait finds it

    def __del__(self) -> None:
        self._wake.close()
        self._waker.close()


class TcpConnection:
    """The system itself counts the bytes that have come (SO_RCVLOWAT): many small sendings are read
    as one, at the moment the last of them is there, and nobody wakes up for the others.

    An amplifier sends by the clock, and a core that sleeps is slow to wake up and slow to work after that
    (some tenths of a millisecond): so it is awake when the bytes are due."""

    def __init__(self, sock: socket.socket, wake: socket.socket) -> None:
        self._sock, self._wake = sock, wake
        self._least_bytes = 1
        self._came_s = 0.0
        """About when the last bytes came: rather early than late."""

    def receive(
        self, timeout_s: float, least_bytes: int = 1, period_s: float = 0.0
    ) -> bytes | None:
        self._wait_for(min(least_bytes, RECV_BYTES))
        readable = self._look(timeout_s, period_s)
        if self._wake in readable:
            return None
        try:
            return self._sock.recv(RECV_BYTES)
        except BlockingIOError:
            return None

    def _look(self, timeout_s: float, period_s: float) -> list[socket.socket]:
        begun, due_s = time.monotonic(), self._came_s + period_s
        awake_s, end = min(AWAKE_S, MOST_AWAKE * period_s), begun + timeout_s
        readable = self._readable(min(due_s - awake_s, end) - begun)
        was_asleep = bool(readable)
        while not readable and time.monotonic() < min(due_s + awake_s, end):
            readable = self._readable(0.0)
        if not readable:
            readable = self._readable(end - time.monotonic())
        late_s = time.monotonic() - due_s
        if abs(late_s) > period_s / 2:
            self._came_s = due_s + late_s
        elif was_asleep:  # then nobody saw when they came, but it was sooner than thought
            self._came_s = due_s - awake_s / 2
        else:
            self._came_s = due_s + min(late_s, FORGET * late_s)
        return readable

    def _readable(self, timeout_s: float) -> list[socket.socket]:
        return select.select([self._sock, self._wake], [], [], max(0.0, timeout_s))[0]

    def _wait_for(self, least_bytes: int) -> None:
        if least_bytes != self._least_bytes:
            self._least_bytes = least_bytes
            with contextlib.suppress(OSError):  # a system without it wakes for every byte
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)  # a few bytes into an empty buffer: it does not block

    def close(self) -> None:
        self._sock.close()
