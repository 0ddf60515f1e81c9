"""Requests and answers of the season's pages: forms, whose size is bounded, languages, JSON."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import BodyPartReader, hdrs, web

from bci_stream.leaderboard.web.connections import Handler, TimedConnection
from bci_stream.page_server import SECURITY
from bci_stream.season.uploads import MEGABYTE, UploadRefused
from bci_stream.season.web.access import AccessError
from tracks.common.reasons import Reason

FIELD_BYTES: Final = 16_384
"""Of a form's field, and of a team file."""
MOST_FIELDS: Final = 8
PIECE_BYTES: Final = 1 << 16

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


def check_origin(request: web.Request) -> None:
    """Refuse a form that a page of another site sends."""
    origin = request.headers.get("Origin", "")
    if origin and urlsplit(origin).netloc != request.host:
        raise AccessError("this form is from a page of another site")


async def form_parts(request: web.Request) -> AsyncIterator[BodyPartReader]:
    """The parts of a form, each with a name, at most MOST_FIELDS."""
    if not request.content_type.startswith("multipart/"):
        raise UploadRefused(400, Reason("upload_no_package"))
    reader = await request.multipart()
    for _ in range(MOST_FIELDS):
        part = await reader.next()
        if not isinstance(part, BodyPartReader):
            return
        yield part


async def field_text(part: BodyPartReader) -> str:
    """The text of a form's field. Raises UploadRefused if it is too long."""
    content = b""
    async for piece in part_pieces(part):
        content += piece
        if len(content) > FIELD_BYTES:
            raise UploadRefused(413, Reason("upload_large", limit_mb=FIELD_BYTES / MEGABYTE))
    return content.decode(errors="replace")


async def part_pieces(part: BodyPartReader) -> AsyncIterator[bytes]:
    while piece := await part.read_chunk(PIECE_BYTES):
        yield piece


async def form_fields(request: web.Request) -> dict[str, str]:
    """All fields of a small form, of either encoding."""
    if request.content_type.startswith("multipart/"):
        return {str(part.name): await field_text(part) async for part in form_parts(request)}
    if (request.content_length or FIELD_BYTES + 1) > FIELD_BYTES:
        raise UploadRefused(413, Reason("upload_large", limit_mb=FIELD_BYTES / MEGABYTE))
    return {name: str(value) for name, value in (await request.post()).items()}
