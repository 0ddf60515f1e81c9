"""A link is one connection to a device; a dialer makes them, and ends all waits when closed."""

import contextlib
import os
import select
import socket
from typing import Protocol

RECV_BYTES = 1 << 16


class UnknownHostError(OSError):
    """A name that no name server knows, now."""


class Link(Protocol):
    def receive(self, timeout_s: float, least_bytes: int = 1) -> bytes | None:
        """What has come: b"" at the end, None where nothing came in time. Raises OSError.

        least_bytes: it is waited for so many, but no longer than timeout_s; then fewer will do.
        """

    def send(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Dialer(Protocol):
    @property
    def address(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def dial(self, timeout_s: float) -> Link:
        """Raises OSError where nobody answers."""

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond close()."""

    def close(self) -> None:
        """From any thread: every wait of this dialer and of its links ends at once."""


class TcpDialer:
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._wake, self._waker = socket.socketpair()
        self.closed = False

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def dial(self, timeout_s: float) -> "TcpLink":
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
        return TcpLink(sock, self._wake)

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


class TcpLink:
    """The system itself counts the bytes that have come (SO_RCVLOWAT): many small sendings are read
    as one, at the moment the last of them is there, and nobody wakes up for the others."""

    def __init__(self, sock: socket.socket, wake: socket.socket) -> None:
        self._sock, self._wake = sock, wake
        self._least_bytes = 1

    def receive(self, timeout_s: float, least_bytes: int = 1) -> bytes | None:
        self._wait_for(min(least_bytes, RECV_BYTES))
        readable, _, _ = select.select([self._sock, self._wake], [], [], timeout_s)
        if self._wake in readable:
            return None
        try:
            return self._sock.recv(RECV_BYTES)
        except BlockingIOError:
            return None

    def _wait_for(self, least_bytes: int) -> None:
        if least_bytes != self._least_bytes:
            self._least_bytes = least_bytes
            with contextlib.suppress(OSError):  # a system without it wakes for every byte
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)  # a few bytes into an empty buffer: it does not block

    def close(self) -> None:
        self._sock.close()
