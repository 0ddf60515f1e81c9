"""The operator's console on the page: login, and actions that are passed on to the judge's local socket.

Who logs in with the organiser's token gets a session cookie (HttpOnly, SameSite=Strict). An action also
needs the session's CSRF token in a header, and an Origin that is this page's. The judge decides on every
action, and writes it to its journal; this process only passes it on.
"""

import asyncio
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from bci_stream.contest.actions import (
    MOST_REQUEST,
    LogIn,
    OperatorAction,
    OperatorAnswer,
    ReadState,
    read_action,
)
from bci_stream.contest.control_socket import ask_judge
from bci_stream.errors import ContestError
from bci_stream.leaderboard.web.connections import Handler, client_of
from bci_stream.leaderboard.web.signal_detail import SignalChoice
from bci_stream.leaderboard.web.signal_view import LiveSignals

COOKIE: Final = "bci-console"
CSRF_HEADER: Final = "X-CSRF-Token"
SESSION_S: Final = 12 * 3600.0
MOST_SESSIONS: Final = 32
FAILURES, ALL_FAILURES, FAILURES_S = 5, 30, 60.0
"""Wrong tokens in FAILURES_S: of one client, and of all together. Above that no login is tried."""


@dataclass
class LoginLimiter:
    """Bounds how often a wrong token may be tried; memory is bounded by ALL_FAILURES."""

    now: Callable[[], float] = time.monotonic
    _failures: deque[tuple[float, str]] = field(default_factory=deque)

    def may_try(self, client: str) -> bool:
        while self._failures and self.now() - self._failures[0][0] > FAILURES_S:
            self._failures.popleft()
        of_client = sum(failed == client for _, failed in self._failures)
        return of_client < FAILURES and len(self._failures) < ALL_FAILURES

    def add_failure(self, client: str) -> None:
        self._failures.append((self.now(), client))


@dataclass
class ConsoleSessions:
    """Who is logged in: the CSRF token of each session, by its cookie. They end with the page's process."""

    now: Callable[[], float] = time.monotonic
    _sessions: dict[str, tuple[float, str]] = field(default_factory=dict)

    def begin(self) -> tuple[str, str]:
        """The cookie and the CSRF token of a new session; the oldest one ends if there are too many."""
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._sessions[cookie] = (self.now(), csrf)
        return cookie, csrf

    def csrf(self, cookie: str) -> str | None:
        """The CSRF token of a session; None if there is no such session, or it is too old."""
        begun, csrf = self._sessions.get(cookie, (float("-inf"), ""))
        return csrf if self.now() - begun < SESSION_S else None

    def end(self, cookie: str) -> None:
        self._sessions.pop(cookie, None)


class Console:
    """The routes of the console. socket: the judge's. signals: as the page receives them."""

    def __init__(self, socket: str, page: Path, signals: LiveSignals) -> None:
        self._socket = Path(socket)
        self._page = page
        self._signals = signals
        signals.keeps_detail = True
        self._limiter = LoginLimiter()
        self._sessions = ConsoleSessions()

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/console", self._show)
        app.router.add_get("/console/state", partial(self._with_session, self._state))
        app.router.add_get("/console/signal", partial(self._with_session, self._signal))
        app.router.add_post("/console/login", partial(self._with_origin, self._log_in))
        for path, handler in (("logout", self._log_out), ("action", self._act)):
            guarded = partial(self._with_session, partial(self._with_csrf, handler))
            app.router.add_post(f"/console/{path}", partial(self._with_origin, guarded))

    async def _show(self, _: web.Request) -> web.StreamResponse:
        return web.FileResponse(self._page)

    # --- guards -------------------------------------------------------------------------------

    async def _with_origin(self, handler: Handler, request: web.Request) -> web.StreamResponse:
        """Refuse what another site's page sends, and anything but JSON, which no form can send."""
        origin = request.headers.get("Origin", "")
        if urlsplit(origin).netloc != request.host or request.content_type != "application/json":
            return _refusal(403, "this request does not come from the console")
        return await handler(request)

    async def _with_session(self, handler: Handler, request: web.Request) -> web.StreamResponse:
        if self._csrf_of(request) is None:
            return _refusal(401, "log in with the organiser's token")
        return await handler(request)

    async def _with_csrf(self, handler: Handler, request: web.Request) -> web.StreamResponse:
        expected = self._csrf_of(request) or ""
        given = request.headers.get(CSRF_HEADER, "")
        if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
            return _refusal(403, "the CSRF token is not this session's; load the page again")
        return await handler(request)

    def _csrf_of(self, request: web.Request) -> str | None:
        return self._sessions.csrf(request.cookies.get(COOKIE, ""))

    # --- requests -----------------------------------------------------------------------------

    async def _log_in(self, request: web.Request) -> web.StreamResponse:
        client = client_of(request.remote or "0.0.0.0")
        if not self._limiter.may_try(client):
            return _refusal(429, f"too many wrong tokens; wait {FAILURES_S:g} s")
        try:
            token = msgspec.json.decode(await _body(request), type=dict[str, str]).get("token", "")
            answer = await self._ask(LogIn(token.strip()[:200]), request)
        except (msgspec.DecodeError, ContestError) as error:
            return _refusal(400, str(error))
        if not answer.done:
            self._limiter.add_failure(client)
            return _refusal(403, answer.text)
        cookie, csrf = self._sessions.begin()
        response = _json({"csrf": csrf})
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_S),
            path="/console",
            httponly=True,
            samesite="Strict",
            secure=request.headers.get("X-Forwarded-Proto") == "https",
        )
        return response

    async def _log_out(self, request: web.Request) -> web.StreamResponse:
        self._sessions.end(request.cookies.get(COOKIE, ""))
        response = _json({})
        response.del_cookie(COOKIE, path="/console")
        return response

    async def _state(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._ask(ReadState(), request)
        except ContestError as error:
            return _refusal(503, str(error))
        state = answer.state | {"csrf": self._csrf_of(request), "signals": self._signals.health()}
        return _json(state)

    async def _signal(self, request: web.Request) -> web.StreamResponse:
        try:
            choice = SignalChoice(request.query)
        except ContestError as error:
            return _refusal(400, str(error))
        track = request.query.get("track", "")
        # In a thread: filters and spectra of many leads take milliseconds.
        detail = await asyncio.to_thread(self._signals.detail, track, choice)
        if detail is None:
            return _refusal(404, f"there is no signal of track {track!r:.40}")
        return _json(detail)

    async def _act(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._ask(read_action(await _body(request)), request)
        except ContestError as error:
            return _refusal(400, str(error))
        return _json(answer, 200 if answer.done else 409)

    async def _ask(self, action: OperatorAction, request: web.Request) -> OperatorAnswer:
        """Ask the judge in a thread, because it may take a moment, and the pages must not wait for it."""
        return await asyncio.to_thread(
            ask_judge, self._socket, action, f"console {request.remote or ''}"
        )


async def _body(request: web.Request) -> bytes:
    body = await request.content.read(MOST_REQUEST + 1)
    if len(body) > MOST_REQUEST:
        raise ContestError(f"a request has at most {MOST_REQUEST} bytes")
    return body


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _refusal(status: int, text: str) -> web.Response:
    return _json({"done": False, "text": text}, status)
