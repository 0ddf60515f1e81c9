"""The season's HTML pages, and what all requests share: forms, whose size is bounded, headers, languages."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from aiohttp import BodyPartReader, hdrs, web
from aiohttp.http_exceptions import BadHttpMessage
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from bci_stream.leaderboard.ranking import LeaderboardRow
from bci_stream.leaderboard.web.connections import Handler, TimedConnection, client_of
from bci_stream.page_server import SECURITY
from bci_stream.season.uploads import MEGABYTE, UploadRefused
from bci_stream.season.web.access import AccessError
from bci_stream.season.web.page_words import PAGE_WORDS
from tracks.common.reasons import Reason

FOLDER: Final = Path(str(files("bci_stream.season.web")))
STATIC: Final = FOLDER / "static"


def _shown_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


_environment: Final = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    auto_reload=False,  # an upgrade beside a running server must not mix versions
)
_environment.filters["shown_time"] = _shown_time


_words: Final = {
    language: {key: Markup(words) for key, words in table.items()}
    for language, table in PAGE_WORDS.items()
}


def render(name: str, language: str, title: str, **content: Any) -> str:
    """A page of templates/; all that is filled in is escaped.

    title: a key of the page's words, as the templates' `t` has them.
    """
    return _fill(name, language, {"title": _words[language][title], **content})


def _fill(name: str, language: str, content: dict[str, Any]) -> str:
    words = _words[language]

    def word(kind: str, value: str) -> str:
        return words.get(f"{kind}_{value}", value)

    frame = {"language": language, "t": words, "word": word}
    return _environment.get_template(f"{name}.html").render({**frame, **content})


class BoardTables:
    """The tables of leaderboards, kept while their rows stay: one of a thousand teams takes long to make."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, str], tuple[object, str]] = {}

    def table(
        self, phase: str, track: str, language: str, rows: list[LeaderboardRow], team: str | None
    ) -> Markup:
        """The table of these rows, with the team's own row marked."""
        of, text = self._made.get((phase, track, language), (None, ""))
        if of is not rows:
            text = _fill("board", language, {"rows": rows})
            self._made[phase, track, language] = (rows, text)
        own = f'<tr data-team="{escape(team)}"'
        return Markup(text.replace(f"{own}>", f'{own} class="own">') if team else text)


def page_answer(request: web.Request, text: str) -> web.Response:
    """A page; without its text if the browser has the same one already (ETag)."""
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    if request.headers.get(hdrs.IF_NONE_MATCH) == tag:
        return web.Response(status=304, headers={hdrs.ETAG: tag})
    return web.Response(text=text, content_type="text/html", headers={hdrs.ETAG: tag})


def stage_reasons(view: dict[str, Any]) -> list[Reason]:
    """Where a submission stands; view: of `SeasonService.view`."""
    reasons = [_stage(view)]
    if view.get("ahead") is not None:
        reasons.append(Reason("units_ahead", units=view["ahead"]))
    if view["fault"] == "organiser" and view["stage"] != "failed":
        reasons.append(Reason("tried_again"))
    return reasons


def _stage(view: dict[str, Any]) -> Reason:
    match view["stage"]:
        case "received":
            return Reason("stage_received")
        case "checking":
            return Reason("stage_checking")
        case "queued":
            return Reason("stage_queued")
        case "running" if view.get("percent") is not None and view["runs"] > 1:
            run, runs = view["run"], view["runs"]
            return Reason("stage_running_split", run=run, runs=runs, percent=view["percent"])
        case "running" if view.get("percent") is not None:
            return Reason("stage_running", subject=view["subject"], percent=view["percent"])
        case "running":
            return Reason("stage_starting")
        case "judged":
            return Reason("stage_judged")
        case "rejected":
            return Reason("stage_rejected")
        case "failed" if view["fault"] == "organiser":
            return Reason("stage_held")
        case "failed":
            return Reason("stage_failed")
        case _:
            return Reason("stage_disqualified")


FIELD_BYTES: Final = 16_384
"""Of a form's field, and of a team file."""
MOST_FIELDS: Final = 8
FORM_S: Final = 30.0
"""How long a small form, or a field before an upload, may take to arrive."""
PIECE_BYTES: Final = 1 << 16

Read = TypeVar("Read")

HEADERS: Final = {
    **SECURITY,
    "Content-Security-Policy": SECURITY["Content-Security-Policy"].replace(
        "form-action 'none'", "form-action 'self'"
    ),
    # With "no-referrer" a browser sends "Origin: null" with the pages' own forms.
    "Referrer-Policy": "same-origin",
}


@web.middleware
async def timed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell the connection when an answer begins and ends."""
    transport = request.transport
    connection = transport.get_protocol() if transport is not None else None
    timed = connection if isinstance(connection, TimedConnection) else None
    if timed is not None:
        timed.begin_answer(events=False)
    try:
        return await handler(request)
    finally:
        if timed is not None:
            timed.end_answer()


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


def json_answer(value: object, status: int = 200) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type="application/json")


def see_other(path: str) -> web.Response:
    return web.Response(status=303, headers={hdrs.LOCATION: path})


def language_of(request: web.Request) -> str:
    return "zh" if request.headers.get("Accept-Language", "").lower().startswith("zh") else "en"


def client_address(request: web.Request) -> str:
    """What counts as one client. Of a proxy on this machine, the client that it names (X-Forwarded-For)."""
    remote = request.remote or "0.0.0.0"
    named = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    if named and ip_address(remote).is_loopback:
        with suppress(ValueError):
            return client_of(named)
    return client_of(remote)


def is_secure(request: web.Request, tls: bool) -> bool:
    """Whether the browser's connection is HTTPS: to this server, or to the operator's proxy."""
    return tls or request.headers.get("X-Forwarded-Proto") == "https"


def check_origin(request: web.Request) -> None:
    """Refuse a form that a page of another site sends."""
    origin = request.headers.get("Origin", "")
    if origin and urlsplit(origin).netloc != request.host:
        raise AccessError("this form is from a page of another site")


async def form_parts(request: web.Request) -> AsyncIterator[BodyPartReader]:
    """The parts of a form, each with a name, at most MOST_FIELDS. Raises UploadRefused."""
    if not request.content_type.startswith("multipart/"):
        raise UploadRefused(400, Reason("upload_no_package"))
    try:
        reader = await request.multipart()
        for _ in range(MOST_FIELDS):
            part = await in_time(reader.next())
            if not isinstance(part, BodyPartReader):
                return
            yield part
    except (ValueError, BadHttpMessage):
        raise UploadRefused(400, Reason("upload_no_package")) from None


async def in_time(reading: Awaitable[Read]) -> Read:
    """Await a part of a form for at most FORM_S. Raises UploadRefused."""
    try:
        async with asyncio.timeout(FORM_S):
            return await reading
    except TimeoutError:
        raise UploadRefused(408, Reason("upload_slow", limit_s=FORM_S)) from None


async def field_text(part: BodyPartReader) -> str:
    """The text of a form's field. Raises UploadRefused if it is too long."""
    content = b""
    async for piece in part_pieces(part):
        content += piece
        if len(content) > FIELD_BYTES:
            raise UploadRefused(413, Reason("upload_large", limit_mb=FIELD_BYTES / MEGABYTE))
    return content.decode(errors="replace")


async def part_pieces(part: BodyPartReader) -> AsyncIterator[bytes]:
    """Raises UploadRefused for a form that is cut or malformed."""
    try:
        while piece := await part.read_chunk(PIECE_BYTES):
            yield piece
    except ValueError:
        raise UploadRefused(400, Reason("upload_no_package")) from None


async def form_fields(request: web.Request) -> dict[str, str]:
    """All fields of a small form, of either encoding, within FORM_S. Raises UploadRefused."""
    return await in_time(_form_fields(request))


async def _form_fields(request: web.Request) -> dict[str, str]:
    if request.content_type.startswith("multipart/"):
        return {str(part.name): await field_text(part) async for part in form_parts(request)}
    if (request.content_length or FIELD_BYTES + 1) > FIELD_BYTES:
        raise UploadRefused(413, Reason("upload_large", limit_mb=FIELD_BYTES / MEGABYTE))
    try:
        return {name: str(value) for name, value in (await request.post()).items()}
    except (ValueError, LookupError):  # a charset that there is not, or another one than it says
        raise UploadRefused(400, Reason("upload_no_package")) from None
