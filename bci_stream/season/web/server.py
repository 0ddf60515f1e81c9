"""The season's server: pages, the HTTP API and uploads, on one port."""

import asyncio
import hmac
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from socket import socket
from typing import Any, Final, TypeVar

from aiohttp import hdrs, web

from bci_stream.errors import StoreError
from bci_stream.leaderboard.ranking import LeaderboardRow, to_csv, to_records
from bci_stream.leaderboard.web.connections import Acceptor, Handler
from bci_stream.leaderboard.web.published import PageLimits
from bci_stream.season.downloads import DataFiles, OfferedFile
from bci_stream.season.service import PhaseView, SeasonService
from bci_stream.season.storage.records import Announcement
from bci_stream.season.units.engines import EngineMachine
from bci_stream.season.uploads import MEGABYTE, ReceivedFile, UploadRefused, Uploads
from bci_stream.season.web.access import (
    EMPTY,
    SESSION_S,
    AccessError,
    RequestVerifier,
    Sessions,
)
from bci_stream.season.web.console import SeasonConsole
from bci_stream.season.web.pages import (
    PIECE_BYTES,
    STATIC,
    BoardTables,
    add_headers,
    check_origin,
    field_text,
    form_fields,
    form_parts,
    in_time,
    is_secure,
    json_answer,
    language_of,
    page_answer,
    part_pieces,
    render,
    see_other,
    stage_reasons,
    timed,
)
from tracks.common.reasons import Reason
from tracks.common.words import describe

COOKIE: Final = "bci_season"

Answer = TypeVar("Answer")


async def _on(owner: ThreadPoolExecutor, method: Callable[..., Answer], *values: Any) -> Answer:
    return await asyncio.get_running_loop().run_in_executor(owner, partial(method, *values))


class SeasonServer:
    """Answers requests.

    wake: called after each new submission. secure: cookies are for HTTPS only. offered: data for teams.
    machines: those of the engine. rerun: runs a submission again, for the console.
    """

    def __init__(
        self,
        service: Callable[[], SeasonService],
        uploads: Uploads,
        wake: Callable[[], None],
        *,
        secure: bool,
        offered: Sequence[OfferedFile] = (),
        machines: Callable[[], Sequence[EngineMachine]] = lambda: (),
        rerun: Callable[[int, str], None] = lambda _number, _who: None,
    ) -> None:
        self._owner = ThreadPoolExecutor(1, thread_name_prefix="season-store")
        self._service = self._owner.submit(service).result()
        # Leaderboards and the console's lists of thousands of submissions take long: status requests must
        # not wait for them.
        self._board_owner = ThreadPoolExecutor(1, thread_name_prefix="season-board")
        self._boards = self._board_owner.submit(service).result()
        self._tables = BoardTables()
        self._uploads = uploads
        self._wake = wake
        self._secure = secure
        self._announced: Sequence[Announcement] = ()
        self._data_files = DataFiles(self._service.contest, offered)
        overview = partial(self._ask_boards, self._boards.overview)
        self._console = SeasonConsole(
            self._service, self._ask, overview, machines, rerun, secure=secure
        )
        token_of = self._service.contest.token
        self._verifier = RequestVerifier(token_of)
        self._sessions = Sessions(token_of)

    async def serve(
        self, listening: socket, tls: ssl.SSLContext | None, stopped: asyncio.Event
    ) -> None:
        """Serve until `stopped` is set."""
        limits = self._uploads.limits
        runner = web.AppRunner(
            self.app(),
            access_log=None,  # the operator's proxy has one
            shutdown_timeout=1,
            handler_cancellation=True,
            keepalive_timeout=20,
        )
        await runner.setup()
        assert runner.server is not None, "it was set up just now"
        bounds = PageLimits(answer_s=limits.seconds + 60, request_bytes=limits.bytes + 2 * MEGABYTE)
        acceptor = Acceptor(listening, runner.server, bounds, tls)
        acceptor.start()
        try:
            await stopped.wait()
        finally:
            acceptor.close()
            await runner.cleanup()

    def close(self) -> None:
        for owner, service in ((self._owner, self._service), (self._board_owner, self._boards)):
            owner.submit(service.close).result()
            owner.shutdown()

    def app(self) -> web.Application:
        """All routes."""
        app = web.Application(middlewares=[timed, self._errors, self._announcing])
        app.on_response_prepare.append(add_headers)
        get, post = app.router.add_get, app.router.add_post
        get("/", self._home)
        get("/login", self._login_page)
        post("/login", self._login)
        post("/logout", self._logout)
        get("/team", self._team_page)
        post("/submit", self._submit_form)
        get("/submissions/{id:[0-9]{1,9}}", self._submission_page)
        post("/submissions/{id:[0-9]{1,9}}/choose", self._choose_form)
        get("/api/v1/season", self._season)
        get("/api/v1/standings", self._standings)
        get("/api/v1/standings.csv", self._standings_csv)
        get("/api/v1/may-submit", self._may_submit)
        get("/api/v1/submissions", self._list)
        post("/api/v1/submissions", self._submit)
        get("/api/v1/submissions/{id:[0-9]{1,9}}", self._one)
        post("/api/v1/submissions/{id:[0-9]{1,9}}/choose", self._choose)
        get("/api/v1/data", self._data)
        get("/api/v1/data/{sha256:[0-9a-f]{64}}", self._send_data)
        self._console.add_routes(app)
        app.router.add_static("/static/", STATIC)
        return app

    async def _ask(self, method: Callable[..., Answer], *values: Any) -> Answer:
        """Call a method of the service on the thread that owns it."""
        return await _on(self._owner, method, *values)

    async def _ask_boards(self, method: Callable[..., Answer], *values: Any) -> Answer:
        """Call a method that takes long, of the service for these."""
        return await _on(self._board_owner, method, *values)

    # --- errors -------------------------------------------------------------------------------

    @property
    def _errors(self) -> Any:
        @web.middleware
        async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
            is_api = request.path.startswith("/api/")
            try:
                return await handler(request)
            except UploadRefused as error:
                words = describe(error.reason, language_of(request))
                status, reason = error.status, error.reason.to_json()
            except AccessError as error:
                words, status, reason = str(error), 401, None
            except StoreError as error:
                words, status, reason = f"the season's store is away: {error}", 503, None
            if is_api:
                refusal: web.StreamResponse = json_answer(
                    {"error": words, "reason": reason}, status
                )
            elif status == 401:
                return web.Response(
                    text=render("login", **self._frame(request, "log_in", words)),
                    content_type="text/html",
                    status=status,
                )
            else:
                text = render("home", **self._frame(request, "refused", words), boards=[])
                refusal = web.Response(text=text, content_type="text/html", status=status)
            if request.can_read_body:
                refusal.force_close()
            return refusal

        return answer_errors

    # --- who asks -----------------------------------------------------------------------------

    def _session(self, request: web.Request) -> str | None:
        return self._sessions.team_of(request.cookies.get(COOKIE, ""))

    def _team(self, request: web.Request, body_sha256: str = EMPTY) -> str:
        """The team that signed the request, or whose session reads. Raises AccessError."""
        header = request.headers.get(hdrs.AUTHORIZATION, "")
        if not header and request.method in ("GET", "HEAD"):
            team = self._session(request)
            if team is not None:
                return team
        return self._verifier.team_of(header, request.method, request.path_qs, body_sha256)

    def _own_session(self, request: web.Request) -> str:
        team = self._session(request)
        if team is None:
            raise AccessError("log in first: the session is over, or there was none")
        return team

    def _check_form_key(self, request: web.Request, given: str) -> None:
        """Raise AccessError unless the form is from a page of ours."""
        expected = self._sessions.form_key(request.cookies.get(COOKIE, ""))
        if not expected or not hmac.compare_digest(expected.encode(), given.encode()):
            raise AccessError("this form is not from a page of your session: load the page again")

    # --- pages --------------------------------------------------------------------------------

    def _frame(self, request: web.Request, title: str, message: str = "") -> dict[str, Any]:
        team = self._session(request)
        cookie = request.cookies.get(COOKIE, "")
        return {
            "language": language_of(request),
            "title": title,
            "contest": self._service.contest.name,
            "team": team,
            "form_key": self._sessions.form_key(cookie) if team else "",
            "message": message,
            "announcements": self._announced,
            "registration": self._service.contest.registration,
        }

    def _page(self, request: web.Request, name: str, title: str, **content: Any) -> web.Response:
        return page_answer(request, render(name, **self._frame(request, title), **content))

    @property
    def _announcing(self) -> Any:
        @web.middleware
        async def load(request: web.Request, handler: Handler) -> web.StreamResponse:
            """Before each page: what it shows on top."""
            if not request.path.startswith(("/api/", "/static/")):
                self._announced = await self._ask(self._service.announcements)
            return await handler(request)

        return load

    async def _ranked(self, phase: str, track: str) -> list[LeaderboardRow] | None:
        """The leaderboard that everyone may see."""
        return await self._ask_boards(self._boards.standings, phase, track)

    async def _home(self, request: web.Request) -> web.StreamResponse:
        views = await self._ask(self._service.phase_views, None, time.time())
        shown = language_of(request), self._session(request)
        boards = [
            (view, rows, self._table(view, rows, *shown))
            for view in views
            for rows in [await self._ranked(view.name, view.track)]
        ]
        return self._page(request, "home", "leaderboard", boards=boards)

    def _table(
        self, view: PhaseView, rows: list[LeaderboardRow] | None, language: str, team: str | None
    ) -> str:
        """Empty without rows."""
        return self._tables.table(view.name, view.track, language, rows, team) if rows else ""

    async def _login_page(self, request: web.Request) -> web.StreamResponse:
        return self._page(request, "login", "log_in")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        check_origin(request)
        fields = await form_fields(request)
        cookie = self._sessions.log_in(fields.get("team_file", "").encode())
        answer = see_other("/team")
        answer.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_S),
            httponly=True,
            secure=is_secure(request, self._secure),
            samesite="Strict",
            path="/",
        )
        return answer

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        self._check_form_key(request, (await form_fields(request)).get("form_key", ""))
        answer = see_other("/")
        answer.del_cookie(COOKIE, path="/")
        return answer

    async def _team_page(self, request: web.Request) -> web.StreamResponse:
        team = self._own_session(request)
        return self._page(
            request,
            "team",
            "submissions",
            made=await self._ask(self._service.list_views, team),
            phases=await self._ask(self._service.phase_views, team, time.time()),
            limit_mb=f"{self._uploads.limits.bytes / MEGABYTE:g}",
            data=self._data_files.of_team(team),
        )

    async def _submission_page(self, request: web.Request) -> web.StreamResponse:
        team, number = self._own_session(request), int(request.match_info["id"])
        view = await self._ask(self._service.view, team, number)
        if view is None:
            raise UploadRefused(404, Reason("no_submission", number=number))
        words = describe(stage_reasons(view), language_of(request))
        return self._page(request, "submission", "submission", one=view, words=words)

    async def _choose_form(self, request: web.Request) -> web.StreamResponse:
        team, number = self._own_session(request), int(request.match_info["id"])
        self._check_form_key(request, (await form_fields(request)).get("form_key", ""))
        await self._choose_for(team, number)
        return see_other(f"/submissions/{number}")

    async def _submit_form(self, request: web.Request) -> web.StreamResponse:
        """The fields before the file say where it goes: nothing is read that is not wanted."""
        team = self._own_session(request)
        fields: dict[str, str] = {}
        async for part in form_parts(request):
            if part.name != "package":
                fields[str(part.name)] = await in_time(field_text(part))
                continue
            self._check_form_key(request, fields.get("form_key", ""))
            phase, _, track = fields.get("place", "").partition("/")
            await self._ask(self._service.may_submit, team, track, phase, time.time())
            received = await self._uploads.receive(team, part_pieces(part), request.content_length)
            made = await self._take(team, track, phase, part.filename or "", received)
            return see_other(f"/submissions/{made}")
        raise UploadRefused(400, Reason("upload_no_package"))

    # --- API ----------------------------------------------------------------------------------

    async def _season(self, request: web.Request) -> web.StreamResponse:
        views = await self._ask(self._service.phase_views, None, time.time())
        phases = [{name: getattr(view, name) for name in view.__slots__} for view in views]
        for phase in phases:
            del phase["left"]
        return json_answer({"contest": self._service.contest.name, "phases": phases})

    async def _rows(self, request: web.Request) -> Any:
        phase, track = request.query.get("phase", ""), request.query.get("track", "")
        rows = await self._ranked(phase, track)
        if rows is None:
            raise UploadRefused(404, Reason("no_standings", phase=phase[:64], track=track[:64]))
        return rows

    async def _standings(self, request: web.Request) -> web.StreamResponse:
        rows = await self._ask_boards(to_records, await self._rows(request))
        return json_answer({"rows": rows})

    async def _standings_csv(self, request: web.Request) -> web.StreamResponse:
        text = await self._ask_boards(to_csv, await self._rows(request))
        return web.Response(text=text, content_type="text/csv")

    async def _may_submit(self, request: web.Request) -> web.StreamResponse:
        team = self._team(request)
        track, wanted = request.query.get("track", ""), request.query.get("phase", "")
        phase = await self._ask(self._service.may_submit, team, track, wanted, time.time())
        return json_answer({"phase": phase.name, "limit_bytes": self._uploads.limits.bytes})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        team = self._team(request)
        return json_answer({"submissions": await self._ask(self._service.list_views, team)})

    async def _one(self, request: web.Request) -> web.StreamResponse:
        return await self._shown(request, self._team(request), int(request.match_info["id"]))

    async def _shown(
        self, request: web.Request, team: str, number: int, status: int = 200
    ) -> web.StreamResponse:
        view = await self._ask(self._service.view, team, number)
        if view is None:
            raise UploadRefused(404, Reason("no_submission", number=number))
        words = describe(stage_reasons(view), language_of(request))
        return json_answer({**view, "words": words}, status)

    async def _submit(self, request: web.Request) -> web.StreamResponse:
        digest = request.headers.get("X-Content-SHA256", "")
        team = self._team(request, digest)
        track, phase = request.query.get("track", ""), request.query.get("phase", "")
        await self._ask(self._service.may_submit, team, track, phase, time.time())
        pieces = request.content.iter_chunked(PIECE_BYTES)
        received = await self._uploads.receive(team, aiter(pieces), request.content_length)
        if received.sha256 != digest:
            self._uploads.discard(received)
            raise UploadRefused(400, Reason("upload_broken"))
        made = await self._take(team, track, phase, request.query.get("name", ""), received)
        return await self._shown(request, team, made, status=201)

    async def _take(
        self, team: str, track: str, phase: str, name: str, received: ReceivedFile
    ) -> int:
        made = await self._ask(
            self._service.submit, team, track, phase, name, received, time.time()
        )
        self._wake()
        return made.id

    async def _choose(self, request: web.Request) -> web.StreamResponse:
        team, number = self._team(request), int(request.match_info["id"])
        await self._choose_for(team, number)
        return await self._shown(request, team, number)

    async def _data(self, request: web.Request) -> web.StreamResponse:
        offered = self._data_files.of_team(self._team(request))
        return json_answer({"files": [file.view() for file in offered]})

    async def _send_data(self, request: web.Request) -> web.StreamResponse:
        return self._data_files.answer(request, self._team(request))

    async def _choose_for(self, team: str, number: int) -> None:
        if not await self._ask(self._service.choose, team, number):
            raise UploadRefused(404, Reason("no_submission", number=number))
