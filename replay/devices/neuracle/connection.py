"""A TCP connection to an amplifier: waits for a given number of bytes, and can be interrupted."""

import contextlib
import os
import select
import socket
import time
from typing import Protocol

RECV_BYTES = 1 << 16

SPIN_S = 5e-4
"""How long before and after the time they are due bytes are polled for without sleeping,"""
MOST_SPIN = 0.02
"""but at most this share of the time between them."""
FORGET = 0.1
"""Share of a delay by which the expected time moves: the quickest arrivals define when bytes are due."""


class UnknownHostError(OSError):
    """A host name that can't be resolved."""


class Connection(Protocol):
    """Used by one thread, except `interrupt`."""

    @property
    def address(self) -> str: ...
    def connect(self, timeout_s: float) -> None:
        """Raises OSError if it fails."""

    def receive(self, timeout_s: float, least_bytes: int, period_s: float) -> bytes | None:
        """What has come: b"" at the end of the connection, None if nothing came. Raises OSError.

        least_bytes: wait for so many, but at most timeout_s; then fewer are returned.
        period_s: when they are due, counted from the last ones; 0 if unknown.
        """

    def send(self, data: bytes) -> None: ...
    def disconnect(self) -> None: ...
    def interrupt(self) -> None:
        """End this and every later wait, from any thread."""


def host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TcpConnection:
    """Implements `Connection`.

    The system counts the received bytes (SO_RCVLOWAT), so that the reader wakes up once for many small
    packets. An amplifier sends periodically, and waking up from a sleep takes some tenths of a
    millisecond: so the socket is polled without sleeping shortly before bytes are due.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._wake, self._waker = socket.socketpair()
        self._socket: socket.socket | None = None
        self._least_bytes = 1
        self._last_s = 0.0
        """About when the last bytes came, rather too early than too late."""

    @property
    def address(self) -> str:
        return host_and_port(self._host, self._port)

    def connect(self, timeout_s: float) -> None:
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise UnknownHostError(f"unknown host {self._host!r} ({error})") from None
        family, kind, protocol, _, address = found[0]
        sock = self._socket = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        code = sock.connect_ex(address)
        _, writable, _ = select.select([self._wake], [sock], [sock], timeout_s if code else 0)
        if not writable:
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._least_bytes, self._last_s = 1, 0.0

    def receive(
        self, timeout_s: float, least_bytes: int = 1, period_s: float = 0.0
    ) -> bytes | None:
        assert self._socket is not None
        self._wait_for_bytes(self._socket, min(least_bytes, RECV_BYTES))
        readable = self._wait(self._socket, timeout_s, period_s)
        if self._wake in readable:
            return None
        try:
            return self._socket.recv(RECV_BYTES)
        except BlockingIOError:
            return None

    def send(self, data: bytes) -> None:
        assert self._socket is not None
        self._socket.sendall(data)  # a few bytes into an empty buffer: it does not block

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def interrupt(self) -> None:
        with contextlib.suppress(OSError):
            self._waker.send(b"x")  # it is never read, so that later waits end too

    def __del__(self) -> None:
        self._wake.close()
        self._waker.close()

    def _wait(self, sock: socket.socket, timeout_s: float, period_s: float) -> list[socket.socket]:
        begun, due_s = time.monotonic(), self._last_s + period_s
        spin_s, end = min(SPIN_S, MOST_SPIN * period_s), begun + timeout_s
        readable = self._readable(sock, min(due_s - spin_s, end) - begun)
        came_early = bool(readable)
        while not readable and time.monotonic() < min(due_s + spin_s, end):
            readable = self._readable(sock, 0.0)
        if not readable:
            readable = self._readable(sock, end - time.monotonic())
        late_s = time.monotonic() - due_s
        if abs(late_s) > period_s / 2:
            self._last_s = due_s + late_s
        elif came_early:  # during the sleep, at an unknown time
            self._last_s = due_s - spin_s / 2
        else:
            self._last_s = due_s + min(late_s, FORGET * late_s)
        return readable

    def _readable(self, sock: socket.socket, timeout_s: float) -> list[socket.socket]:
        return select.select([sock, self._wake], [], [], max(0.0, timeout_s))[0]

    def _wait_for_bytes(self, sock: socket.socket, least_bytes: int) -> None:
        if least_bytes != self._least_bytes:
            self._least_bytes = least_bytes
            with contextlib.suppress(OSError):  # without it, the reader wakes up for every byte
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)
