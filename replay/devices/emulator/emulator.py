"""Serves a recording over TCP in real time, as a Neuracle amplifier would.

The device clock starts with the first client and then keeps running: a client that was disconnected
has lost samples, as with a real amplifier.
"""

import contextlib
import logging
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import TextIO

from bci_stream.clock import RealClock
from bci_stream.errors import SourceError
from replay.devices.emulator.amplifier import EmulatedAmplifier, WireAction
from replay.devices.neuracle.connection import host_and_port
from replay.devices.neuracle.jellyfish_frames import ACKNOWLEDGE
from replay.model.source import Session, Source
from tracks.registry import available_tracks

logger = logging.getLogger(__name__)

SEND_S = 2.0
"""A client that takes no data for this long is disconnected."""

GREETING_AGAIN_S = 1.0
_RESET = struct.pack("ii", 1, 0)


class _Client:
    def __init__(self, sock: socket.socket, ready: bool, now: float) -> None:
        sock.settimeout(SEND_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self.ready = ready
        self.received = b""
        self.since = self.greeted_at = now


class Emulator:
    """Listens from the constructor on and serves in a thread of its own, which owns all sockets.

    began: when the device clock started, on the emulator's clock; None before the first client.
    error: what ended the thread, if it failed.
    """

    def __init__(
        self,
        amplifier: EmulatedAmplifier,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._amplifier = amplifier
        self._clock = RealClock()
        self._host = host
        self._listener: socket.socket | None = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._waker = socket.socketpair()
        self._clients: list[_Client] = []
        self._refused_until = 0.0
        self._thread = threading.Thread(target=self._run, name="emulator", daemon=True)
        self.began: float | None = None
        self.error: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def serve(self, stop: threading.Event) -> None:
        """Serve until the recording ends or `stop` is set. Raises what the thread raised."""
        self.start()
        while self._thread.is_alive() and not stop.wait(0.05):
            pass
        self.close()
        if self.error is not None:
            raise self.error

    def __enter__(self) -> "Emulator":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread and wait for it."""
        with contextlib.suppress(OSError):
            self._waker.send(b"x")
        if self._thread.ident is not None:
            self._thread.join()
        self._release()

    def _run(self) -> None:
        try:
            if self._wait(None, until_client=True):
                self.began = self._clock.now()
                self._play(self.began)
        except Exception as error:  # noqa: BLE001 - the thread's boundary; the owner reads it
            self.error = error
        finally:
            self._release()

    def _play(self, began: float) -> None:
        for action in self._amplifier.actions():
            if not self._wait(began + action.due_s):
                return
            self._do(action, began)

    def _wait(self, deadline: float | None, until_client: bool = False) -> bool:
        """Serve clients until the deadline, or until one is ready. Returns False after close()."""
        while True:
            self._listen_again()
            left = None if deadline is None else deadline - self._clock.now()
            if left is not None and left <= 0:
                return True
            waiting = [c.socket for c in self._clients if not c.ready]
            timeout = left if not waiting else min(left or GREETING_AGAIN_S, GREETING_AGAIN_S)
            listening = [self._listener] if self._listener else []
            readable, _, _ = select.select([*listening, *waiting, self._wake], [], [], timeout)
            if self._wake in readable:
                return False
            if self._listener in readable:
                self._accept()
            self._receive(readable)
            self._greet_again()
            if until_client and any(client.ready for client in self._clients):
                return True

    def _accept(self) -> None:
        if self._listener is None:
            return
        sock, address = self._listener.accept()
        client = _Client(sock, not self._amplifier.acknowledged, self._clock.now())
        self._clients.append(client)
        logger.info("client %s:%s connected", address[0], address[1])
        self._send(client, self._amplifier.greeting())

    def _receive(self, readable: list[socket.socket]) -> None:
        for client in [c for c in self._clients if c.socket in readable and not c.ready]:
            try:
                data = client.socket.recv(64)
            except OSError:
                data = b""
            if not data:
                self._drop(client, "left")
            client.received = (client.received + data)[-64:]
            client.ready = ACKNOWLEDGE in client.received

    def _greet_again(self) -> None:
        now = self._clock.now()
        for client in [c for c in self._clients if not c.ready]:
            if now - client.greeted_at >= GREETING_AGAIN_S:
                client.greeted_at = now
                self._send(client, self._amplifier.greeting())

    def _do(self, action: WireAction, began: float) -> None:
        if action.kind == "send":
            for client in [c for c in self._clients if c.ready and action.is_for(c.since - began)]:
                self._send(client, action.data)
            return
        logger.info("%.2f s: %s", action.due_s, action.kind)
        for client in list(self._clients):
            if action.kind == "reset":
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._drop(client)
        if action.kind == "refuse" and self._listener is not None:
            self._listener.close()
            self._listener = None
            self._refused_until = began + action.until_s

    def _listen_again(self) -> None:
        if self._listener is None and self._clock.now() >= self._refused_until:
            self._listener = _listen(self._host, self.port)

    def _send(self, client: _Client, data: bytes) -> None:
        try:
            client.socket.sendall(data)
        except OSError as error:
            self._drop(client, f"is gone ({error.strerror or error})")

    def _drop(self, client: _Client, why: str = "") -> None:
        if client in self._clients:
            self._clients.remove(client)
            client.socket.close()
            if why:
                logger.info("a client %s", why)

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


def choose_session(source: Source, subject: str | None) -> Session:
    """The session of that subject, or the first one."""
    if source.live:
        raise SourceError(f"{source.uri} is a device itself; an emulator plays recordings")
    seen = []
    for session in source.sessions():
        if subject in (None, session.subject):
            return session
        seen.append(session.subject)
    raise SourceError(
        f"{source.uri} has no subject {subject!r}; it has {', '.join(seen) or 'none at all'}"
    )


def client_uri(host: str, port: int, protocol: str, session: Session) -> str:
    """The URI that `bci-replay start` needs to connect to an emulator."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    name = protocol.partition("-")[0]
    uri = f"neuracle://{host_and_port(here, port)}?protocol={name}"
    names = tuple(lead.name for lead in session.leads)
    tracks = [track.name for track in available_tracks() if track.leads == names]
    montage = tracks[0] if tracks else ",".join(names)
    if name == "raw":
        uri += f"&channels={len(session.leads)}&rate={session.rate:g}"
    return uri if name == "jellyfish" else f"{uri}&montage={montage}"


def read_lead_in(text: str, keyboard: TextIO) -> Callable[[float], bool]:
    """Whether the lead-in lasts, asked with the seconds played: text is seconds, or `ask` for Enter."""
    if text != "ask":
        seconds = _lead_in_seconds(text)
        return lambda played_s: played_s < seconds
    pressed = threading.Event()

    def wait_for_enter() -> None:
        keyboard.readline()
        pressed.set()
        logger.info("the recording begins")

    threading.Thread(target=wait_for_enter, name="keyboard", daemon=True).start()
    return lambda _: not pressed.is_set()


def _lead_in_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise SourceError(f"--lead-in must be seconds from 0 to 86400, or `ask`, got {text!r}")
    return seconds
