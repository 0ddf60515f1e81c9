"""Bounded and timed connections: how many may be open, and how long each may take.

A connection above a bound is answered with 503 at once. Everything here belongs to the event loop.
"""

import asyncio
import errno
import resource
import socket
import ssl
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import IPv6Network, ip_address
from typing import Final

from aiohttp import web

from bci_stream.leaderboard.web.published import PageLimits

ACCEPTED_AT_ONCE: Final = 64
"""Connections accepted before other work gets its turn."""
ACCEPT_PAUSE_S: Final = 0.2
"""Pause when the system has no room for another connection."""
SWEEP_S: Final = 0.5
SEND_BUFFER: Final = 1 << 18
"""Of the kernel, in bytes, for each connection."""
MOST_UNSENT_BYTES: Final = 1 << 27
"""Unread bytes of all pages together; beyond it the pages with the most are dropped."""

SPARE_DESCRIPTORS: Final = 64
"""For files, the store, the feed and LSL."""

REFUSED_KEPT: Final = 128
REFUSED_S: Final = 1.0
"""Refused connections that stay open so that their clients can read why, and for how long."""

_TEXT: Final = b"The page has too many connections; try again in a few seconds.\n"
REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nX-Content-Type-Options: nosniff\r\nRetry-After: 5\r\n"
    b"Connection: close\r\n\r\n%b" % (len(_TEXT), _TEXT)
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def raise_descriptor_limit(wanted: int) -> int:
    """Let this process open as many descriptors as `wanted` if the system allows; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    most = wanted if hard == unlimited else min(wanted, hard)
    if soft != unlimited and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return wanted if soft == unlimited else soft


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 network of an IPv6 address."""
    host = ip_address(address.partition("%")[0])
    if host.version == 4:
        return str(host)
    return str(host.ipv4_mapped or IPv6Network((int(host) >> 64 << 64, 64)))


class TimedConnection(asyncio.Protocol):
    """A connection that hands everything to aiohttp's `handler`, and records what it waits for.

    waits_for: "head" (a request), "answer" (being made), "reader" (between requests, or until the answer
    is read) or "events" (a page of events).
    """

    def __init__(
        self,
        handler: asyncio.Protocol,
        limits: PageLimits,
        now: Callable[[], float],
        closed: Callable[["TimedConnection"], None],
    ) -> None:
        self._handler = handler
        self._limits = limits
        self._now = now
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self._received = 0
        self._wait("head")

    def _wait(self, waits_for: str) -> None:
        self.waits_for, self._since = waits_for, self._now()

    def begin_answer(self, *, events: bool) -> None:
        """A request has arrived. events: its answer is a stream without an end."""
        self._received = 0
        self._wait("events" if events else "answer")

    def end_answer(self) -> None:
        self._wait("reader")

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def is_overdue(self) -> bool:
        """Whether the connection has exceeded the limit of what it waits for."""
        if self.waits_for == "events" and self.unsent_bytes == 0:
            self._since = self._now()
        limit_s = {
            "head": self._limits.head_s,
            "answer": self._limits.answer_s,
            "reader": self._limits.idle_s,
            "events": self._limits.unsent_s,
        }[self.waits_for]
        return self._now() - self._since > limit_s

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed(self)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.waits_for == "reader":
            self._wait("head")
        self._received += len(data)
        if self._received > self._limits.request_bytes:
            self.abort()
        else:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


class Acceptor:
    """Accepts connections on a listening socket within the limits.

    make_handler: makes aiohttp's side of a connection. tls: for HTTPS.
    """

    def __init__(
        self,
        listening: socket.socket,
        make_handler: Callable[[], asyncio.Protocol],
        limits: PageLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._listening = listening
        self._make_handler = make_handler
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._of_client: dict[TimedConnection, str] = {}
        self._clients: Counter[str] = Counter()
        self._refused: deque[tuple[float, socket.socket]] = deque()
        self._opening: set[asyncio.Task[object]] = set()
        wanted = limits.connections + REFUSED_KEPT + SPARE_DESCRIPTORS
        descriptors = raise_descriptor_limit(wanted)
        self._most = max(1, limits.connections - max(0, wanted - descriptors))

    def start(self) -> None:
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening, self._accept)
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def close(self) -> None:
        """Accept no more connections, and close those that were refused."""
        self._loop.remove_reader(self._listening)
        self._sweeping.cancel()
        for _, refused in self._refused:
            refused.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._loop.remove_reader(self._listening)
                self._loop.call_later(
                    ACCEPT_PAUSE_S, self._loop.add_reader, self._listening, self._accept
                )
                return
            accepted.setblocking(False)
            client = client_of(address[0])
            if len(self._of_client) >= self._most or (
                self._clients[client] >= self._limits.per_address
            ):
                self._refuse(accepted)
            else:
                self._admit(accepted, client)

    def _admit(self, accepted: socket.socket, client: str) -> None:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        made = TimedConnection(
            self._make_handler(), self._limits, self._loop.time, self._connection_closed
        )
        self._of_client[made] = client
        self._clients[client] += 1
        task = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: made, accepted, ssl=self._tls)
        )
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _connection_closed(self, connection: TimedConnection) -> None:
        client = self._of_client.pop(connection)
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]

    def _refuse(self, accepted: socket.socket) -> None:
        """Answer, and close later: closing at once could take the answer from the client."""
        with suppress(OSError):
            accepted.send(REFUSAL)
            accepted.shutdown(socket.SHUT_WR)
        self._refused.append((self._loop.time(), accepted))
        if len(self._refused) > REFUSED_KEPT:
            self._refused.popleft()[1].close()

    def _sweep(self) -> None:
        """Drop what is overdue."""
        for connection in [c for c in self._of_client if c.is_overdue()]:
            connection.abort()
        self._drop_unsent()
        while self._refused and self._loop.time() - self._refused[0][0] > REFUSED_S:
            self._refused.popleft()[1].close()
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def _drop_unsent(self) -> None:
        unsent = {connection: connection.unsent_bytes for connection in self._of_client}
        surplus = sum(unsent.values()) - MOST_UNSENT_BYTES
        for connection in sorted(unsent, key=lambda c: unsent[c], reverse=True):
            if surplus <= 0:
                return
            connection.abort()
            surplus -= unsent[connection]


EVENTS_PATH: Final = "/api/v1/events"


@web.middleware
async def timed_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell the connection when an answer begins and ends; only the console's requests have a body."""
    transport = request.transport
    connection = transport.get_protocol() if transport is not None else None
    if not isinstance(connection, TimedConnection):
        raise ConnectionResetError("the client has left")
    connection.begin_answer(events=request.path == EVENTS_PATH)
    try:
        takes_body = request.method == "POST" and request.match_info.http_exception is None
        if request.can_read_body and not takes_body:
            refusal = web.Response(status=413, text="This page takes no request bodies.\n")
            refusal.force_close()
            return refusal
        return await handler(request)
    finally:
        connection.end_answer()
