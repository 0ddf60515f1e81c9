"""The organiser's console of a season, at /console, and open registration, at /register.

Who logs in with the organiser's token gets a session cookie (HttpOnly, SameSite=Strict). Each form carries a
value of its session, and its Origin must be this page's. Each action is recorded in the store.
"""

import asyncio
import hmac
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiohttp import hdrs, web

from bci_stream.errors import ContestError, StoreError
from bci_stream.leaderboard.web.console import LoginLimiter
from bci_stream.season.actions import FAILURE_NAME, FAILURES, number_in
from bci_stream.season.service import SeasonService
from bci_stream.season.units.engines import EngineMachine
from bci_stream.season.web.access import AccessError
from bci_stream.season.web.page_words import PAGE_WORDS
from bci_stream.season.web.pages import (
    check_origin,
    client_address,
    form_fields,
    is_secure,
    language_of,
    render,
    see_other,
)
from tracks.common.reasons import Reason
from tracks.common.words import describe

COOKIE: Final = "bci_season_console"
SESSION_S: Final = 12 * 3600.0
MOST_SESSIONS: Final = 32
APPLICATIONS_S: Final = 3600.0
APPLICATIONS: Final = 5
"""Of one client in APPLICATIONS_S."""

Ask = Callable[..., Awaitable[Any]]
"""Calls a function on the thread that owns the store."""


class SeasonConsole:
    """Pages of the organiser and of applicants.

    overview: what the console shows at a time. machines: those of the engine. rerun: starts one.
    """

    def __init__(
        self,
        service: SeasonService,
        ask: Ask,
        overview: Callable[[float], Awaitable[dict[str, Any]]],
        machines: Callable[[], Sequence[EngineMachine]],
        rerun: Callable[[int, str], None],
        *,
        secure: bool,
    ) -> None:
        self._service = service
        self._contest = service.contest
        self._ask = ask
        self._overview_at = overview
        self._machines = machines
        self._rerun = rerun
        self._secure = secure
        self._token = self._contest.keys.console_token()
        self._sessions: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._limiter = LoginLimiter()
        self._applied: deque[tuple[float, str]] = deque()

    def add_routes(self, app: web.Application) -> None:
        get, post = app.router.add_get, app.router.add_post
        get("/console", self._page)
        post("/console/login", self._login)
        post("/console/logout", self._logout)
        post("/console/act", self._act)
        get("/console/failures/{name}", self._failure)
        get("/register", self._register_page)
        post("/register", self._register)
        post("/register/claim", self._claim)

    # --- the organiser ------------------------------------------------------------------------

    def _form_key(self, request: web.Request) -> str | None:
        """The value that forms of the request's session carry; None without a session."""
        until, key = self._sessions.get(request.cookies.get(COOKIE, ""), (0.0, ""))
        return key if until > time.monotonic() else None

    def _show(
        self, request: web.Request, name: str, title: str, status: int = 200, **content: Any
    ) -> web.Response:
        frame: dict[str, Any] = {"contest": self._contest.name}
        frame |= {"team": None, "form_key": "", "message": "", "announcements": []}
        frame |= {"registration": self._contest.registration}
        text = render(name, language_of(request), title, **{**frame, **content})
        return web.Response(text=text, content_type="text/html", status=status)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        key = self._form_key(request)
        if key is None:
            return self._show(request, "console_login", "console")
        return await self._overview(request, key)

    async def _overview(
        self, request: web.Request, key: str, message: str = "", status: int = 200
    ) -> web.Response:
        content = await self._overview_at(time.time())
        machines = await asyncio.to_thread(self._machines)  # a scheduler that is away takes long
        return self._show(
            request,
            "console",
            "console",
            status,
            form_key=key,
            message=message,
            machines=machines,
            **content,
        )

    async def _login(self, request: web.Request) -> web.StreamResponse:
        check_origin(request)
        client, words = client_address(request), PAGE_WORDS[language_of(request)]
        given = (await form_fields(request)).get("token", "").strip()
        if not self._limiter.may_try(client):
            message = words["too_many_tries"]
            return self._show(request, "console_login", "console", 429, message=message)
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            self._limiter.add_failure(client)
            message = words["wrong_token"]
            return self._show(request, "console_login", "console", 401, message=message)
        session = secrets.token_hex(16)
        self._sessions[session] = (time.monotonic() + SESSION_S, secrets.token_hex(16))
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        answer = see_other("/console")
        answer.set_cookie(
            COOKIE, session, max_age=int(SESSION_S), httponly=True,
            secure=is_secure(request, self._secure),            samesite="Strict", path="/console",
        )  # fmt: skip
        return answer

    async def _form(self, request: web.Request) -> tuple[str, dict[str, str]]:
        """(form key, fields) of a form of the console. Raises AccessError."""
        check_origin(request)
        key, fields = self._form_key(request), await form_fields(request)
        if key is None or not hmac.compare_digest(
            key.encode(), fields.get("form_key", "").encode()
        ):
            raise AccessError("log in to the console first: /console")
        return key, fields

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        await self._form(request)
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)
        return see_other("/console")

    async def _act(self, request: web.Request) -> web.StreamResponse:
        key, fields = await self._form(request)
        action, language = fields.pop("action", ""), language_of(request)
        try:
            if action == "rerun":
                number = number_in(fields)
                await asyncio.to_thread(self._rerun, number, "console")
                done = Reason("did_rerun", number=number)
            else:
                done = await self._ask(
                    self._service.perform, action, fields, "console", time.time()
                )
        except (ContestError, StoreError) as error:
            return await self._overview(request, key, str(error), 409)
        return await self._overview(
            request, key, PAGE_WORDS[language]["done"].format(what=describe(done, language))
        )

    async def _failure(self, request: web.Request) -> web.StreamResponse:
        """What a unit printed that failed through the organiser's side."""
        name = request.match_info["name"]
        path = self._contest.folder / FAILURES / f"{name}.log"
        if self._form_key(request) is None:
            raise AccessError("log in to the console first: /console")
        if not FAILURE_NAME.fullmatch(name) or not path.is_file():
            raise web.HTTPNotFound
        return web.Response(text=path.read_text(errors="replace"), content_type="text/plain")

    # --- applicants ---------------------------------------------------------------------------

    async def _register_page(self, request: web.Request) -> web.StreamResponse:
        return self._show(request, "register", "register", code="", team_asked="")

    async def _register(self, request: web.Request) -> web.StreamResponse:
        check_origin(request)
        fields = await form_fields(request)
        client, now = client_address(request), time.monotonic()
        while self._applied and now - self._applied[0][0] > APPLICATIONS_S:
            self._applied.popleft()
        try:
            if Counter(each for _, each in self._applied)[client] >= APPLICATIONS:
                words = PAGE_WORDS[language_of(request)]
                raise ContestError(words["too_many_applications"].format(limit=APPLICATIONS))
            code = await self._ask(self._service.apply_for, fields, time.time())
        except (ContestError, StoreError) as error:
            return self._show(
                request, "register", "register", 409, message=str(error), code="", team_asked=""
            )
        self._applied.append((now, client))
        team = fields["team"].strip()
        return self._show(request, "register", "register", 201, code=code, team_asked=team)

    async def _claim(self, request: web.Request) -> web.StreamResponse:
        check_origin(request)
        fields = await form_fields(request)
        client, words = client_address(request), PAGE_WORDS[language_of(request)]
        try:
            if not self._limiter.may_try(client):
                raise ContestError(words["too_many_tries"])
            found, content = await self._ask(self._service.claimed, fields.get("code", ""))
        except (ContestError, StoreError) as error:
            self._limiter.add_failure(client)
            return self._show(
                request, "register", "register", 409, message=str(error), code="", team_asked=""
            )
        if content is None:
            message = words[f"claim_{found.state}"]
            return self._show(
                request, "register", "register", message=message, code="", team_asked=""
            )
        name = f'attachment; filename="{found.team}.bci"'
        headers = {hdrs.CONTENT_DISPOSITION: name}
        return web.Response(body=content, content_type="application/octet-stream", headers=headers)
