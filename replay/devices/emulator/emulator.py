"""An emulator serves a recording over TCP as a Neuracle amplifier would, in real time.

Its device clock starts with the first client and then runs on, whoever listens: a client that
was away has lost samples, as with the real thing.
"""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

from bci_stream.clock import Clock, RealClock
from bci_stream.errors import SourceError
from replay.devices.emulator.amplifier import Amplifier, WireAction
from replay.devices.neuracle.jellyfish_frames import ACKNOWLEDGE

SEND_S = 2.0
"""A client that takes nothing for so long is dropped: an amplifier does not wait."""

GREETING_AGAIN_S = 1.0
_RESET = struct.pack("ii", 1, 0)


class _Client:
    def __init__(self, sock: socket.socket, ready: bool, now: float) -> None:
        sock.settimeout(SEND_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.ready = ready
        self.heard = b""
        self.since = self.greeted_at = now


class Emulator:
    """Listens from the constructor on; `run` serves in the caller's thread, `start` in its own.

    said: is told in words what happens, for the operator.
    """

    def __init__(
        self,
        amplifier: Amplifier,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
        said: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._amplifier, self._said = amplifier, said
        self._clock = clock or RealClock()
        self._host = host
        self._listener: socket.socket | None = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._waker = socket.socketpair()
        self._clients: list[_Client] = []
        self._refused_until = 0.0
        self._thread: threading.Thread | None = None
        self.began: float | None = None
        """When the device's clock started, on the emulator's clock."""
        self.error: Exception | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run_in_thread, name="emulator", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Emulator":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End `run`, from any thread."""
        with contextlib.suppress(OSError):
            self._waker.send(b"x")
        if self._thread is not None:
            self._thread.join()
            self._release()

    def run(self) -> None:
        """Serve until the recording ends or close() is called."""
        try:
            if self._wait(None, until_client=True):
                self.began = self._clock.now()
                self._play(self.began)
        finally:
            self._release()

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - the thread's edge; the owner reads it
            self.error = error

    def _play(self, began: float) -> None:
        for act in self._amplifier.acts():
            if not self._wait(began + act.due_s):
                return
            self._do(act, began)

    def _wait(self, deadline: float | None, until_client: bool = False) -> bool:
        """Answer clients until the deadline (or one is ready); False where close() was called."""
        while True:
            self._listen_again()
            left = None if deadline is None else deadline - self._clock.now()
            if left is not None and left <= 0:
                return True
            waiting = [c.sock for c in self._clients if not c.ready]
            timeout = left if not waiting else min(left or GREETING_AGAIN_S, GREETING_AGAIN_S)
            listening = [self._listener] if self._listener else []
            readable, _, _ = select.select([*listening, *waiting, self._wake], [], [], timeout)
            if self._wake in readable:
                return False
            if self._listener in readable:
                self._accept()
            self._hear(readable)
            self._greet_again()
            if until_client and any(client.ready for client in self._clients):
                return True

    def _accept(self) -> None:
        if self._listener is None:
            return
        sock, address = self._listener.accept()
        client = _Client(sock, not self._amplifier.acknowledged, self._clock.now())
        self._clients.append(client)
        self._said(f"client {address[0]}:{address[1]} connected")
        self._send(client, self._amplifier.greeting())

    def _hear(self, readable: list[socket.socket]) -> None:
        for client in [c for c in self._clients if c.sock in readable and not c.ready]:
            try:
                heard = client.sock.recv(64)
            except OSError:
                heard = b""
            if not heard:
                self._drop(client, "left")
            client.heard = (client.heard + heard)[-64:]
            client.ready = ACKNOWLEDGE in client.heard

    def _greet_again(self) -> None:
        now = self._clock.now()
        for client in [c for c in self._clients if not c.ready]:
            if now - client.greeted_at >= GREETING_AGAIN_S:
                client.greeted_at = now
                self._send(client, self._amplifier.greeting())

    def _do(self, act: WireAction, began: float) -> None:
        if act.kind == "send":
            for client in [c for c in self._clients if c.ready and act.is_for(c.since - began)]:
                self._send(client, act.data)
            return
        self._said(f"{act.due_s:.2f} s: {act.kind}")
        for client in list(self._clients):
            if act.kind == "reset":
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._drop(client)
        if act.kind == "refuse":
            self._refuse(began + act.until_s)

    def _refuse(self, until: float) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._refused_until = until

    def _listen_again(self) -> None:
        if self._listener is None and self._clock.now() >= self._refused_until:
            self._listener = _listen(self._host, self.port)

    def _send(self, client: _Client, data: bytes) -> None:
        try:
            client.sock.sendall(data)
        except OSError as error:
            self._drop(client, f"gone ({error.strerror or error})")

    def _drop(self, client: _Client, why: str = "") -> None:
        if client in self._clients:
            self._clients.remove(client)
            client.sock.close()
            if why:
                self._said(f"a client is {why}")

    def _release(self) -> None:
        for client in list(self._clients):
            self._drop(client)
        for sock in (self._listener, self._wake, self._waker):
            if sock is not None:
                sock.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(4)
    except OSError as error:
        sock.close()
        raise SourceError(
            f"can't serve at {host}:{port}: {error.strerror or error}; choose another --port, or "
            "end the program that uses it"
        ) from None
    return sock
