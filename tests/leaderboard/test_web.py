"""The page's server: the API, its description, and events over all kinds of connections."""

import asyncio
import csv
import io
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from bci_stream.errors import PageError
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.store import open_store
from bci_stream.leaderboard.web.process import WebBoard
from scripts.simulated_runs import SimulatedRun
from tests.leaderboard.conftest import feed_board
from tracks.registry import TRACKS

T = TypeVar("T")
HOSTILE = "<img src=x onerror=alert(1)>\"'&/../%00"


@pytest.fixture
def board() -> Leaderboard:
    return full_board()


def full_board() -> Leaderboard:
    board = Leaderboard("Finals")
    for track in TRACKS:
        feed_board(board, "alpha", track, SimulatedRun(track, "alpha", trials=2).events())
    board.team(HOSTILE, "mi", "running", reason=HOSTILE)
    return board


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBoard]:
    """A page whose board does not change."""
    folder = tmp_path_factory.mktemp("page")
    log = folder / "secret-folder-a.jsonl"
    log.write_text(
        "".join(json.dumps(e) + "\n" for e in SimulatedRun("mi", "alpha", trials=1).events())
    )
    store = open_store(str(folder / "store.sqlite"))
    store.rebuild([log], "finals")
    store.close()
    served = WebBoard(full_board(), port=0, store=str(folder / "store.sqlite"), period_s=0.01)
    served.start()
    yield served
    served.stop()


def fetch(page: WebBoard, ask: Callable[[aiohttp.ClientSession], Awaitable[T]]) -> T:
    async def run() -> T:
        timeout = aiohttp.ClientTimeout(total=20)
        async with aiohttp.ClientSession(page.url, timeout=timeout) as session:
            return await ask(session)

    return asyncio.run(run())


def get(page: WebBoard, path: str) -> tuple[int, str, Any]:
    async def ask(session: aiohttp.ClientSession) -> tuple[int, str, Any]:
        async with session.get(path) as answer:
            return answer.status, await answer.text(), answer.headers

    return fetch(page, ask)


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, str]]:
    """The server-sent events of a stream, as dicts of their fields."""
    fields: dict[str, str] = {}
    async for line in answer.content:
        text = line.decode().rstrip("\n")
        if text:
            name, _, value = text.partition(": ")
            fields[name] = value
        elif fields:
            yield fields
            fields = {}


async def next_event(stream: AsyncIterator[dict[str, str]], kind: str) -> dict[str, str]:
    async for event in stream:
        if event.get("event") == kind:
            return event
    raise AssertionError(f"the stream ended before an event `{kind}`")


def schema_problems(value: Any, schema: dict[str, Any], all_schemas: dict[str, Any]) -> list[str]:
    """Where a value breaks the part of JSON Schema that openapi.json uses."""
    if "$ref" in schema:
        schema = all_schemas[schema["$ref"].rpartition("/")[2]]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    wanted = schema.get("type", "object")
    names = wanted if isinstance(wanted, list) else [wanted]
    if value is None:
        return [] if "null" in names else [f"null, wanted {names}"]
    types = tuple(kinds.get(name, int | float) for name in names if name != "null")
    if not any(isinstance(value, kind) for kind in types):
        return [f"{value!r} is not {names}"]
    found = [f"{name} is missing" for name in schema.get("required", []) if name not in value]
    if isinstance(value, dict):
        rest = schema.get("additionalProperties")
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, rest)
            found += [] if inner is None else schema_problems(item, inner, all_schemas)
    if isinstance(value, list) and "items" in schema:
        for item in value:
            found += schema_problems(item, schema["items"], all_schemas)
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{value!r} is none of {schema['enum']}")
    return found


def test_the_api_answers_as_its_description_says(page: WebBoard) -> None:
    document = json.loads(get(page, "/api/v1/openapi.json")[1])
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        if path.endswith("events"):
            continue
        filled = path.replace("{track}", "erp").replace("{team}", "alpha")
        status, text, headers = get(page, filled)
        kind, content = next(iter(methods["get"]["responses"]["200"]["content"].items()))
        assert status == 200
        assert headers["Content-Type"].partition(";")[0] == kind
        if kind == "application/json":
            assert schema_problems(json.loads(text), content["schema"], schemas) == []


def test_every_route_is_described(page: WebBoard) -> None:
    from bci_stream.leaderboard.web.published import PublishedBoard
    from bci_stream.leaderboard.web.server import build_app
    from bci_stream.leaderboard.web.sse import Broadcast

    document = json.loads(get(page, "/api/v1/openapi.json")[1])

    async def routes() -> set[str]:
        board = PublishedBoard()
        router = build_app(board, Broadcast(board)).router
        return {str(resource.canonical) for resource in router.resources()}

    assert {path for path in asyncio.run(routes()) if "api" in path} == set(document["paths"])


@pytest.mark.parametrize("track", list(TRACKS))
def test_every_track_has_team_pages_of_the_described_form(page: WebBoard, track: str) -> None:
    document = json.loads(get(page, "/api/v1/openapi.json")[1])
    schemas = document["components"]["schemas"]
    detail = json.loads(get(page, f"/api/v1/teams/{track}/alpha")[1])
    assert schema_problems(detail, schemas["Team"], schemas) == []
    assert len(detail["trials"]) == 2
    assert (detail["angles"] is not None) == (track == "ecog")


def test_the_csv_has_a_line_a_team(page: WebBoard) -> None:
    rows = list(csv.DictReader(io.StringIO(get(page, "/api/v1/leaderboard.csv?track=erp")[1])))
    assert [(row["team"], row["rank"]) for row in rows] == [("alpha", "1")]


def test_past_runs_are_listed_by_the_name_of_their_log_and_not_its_folder(page: WebBoard) -> None:
    (run,) = json.loads(get(page, "/api/v1/runs?contest=finals&track=mi")[1])["runs"]
    assert run["log"] == "secret-folder-a.jsonl"
    assert run["row"]["team"] == "alpha"
    assert json.loads(get(page, "/api/v1/runs?track=erp")[1]) == {"runs": []}


def test_a_store_that_cannot_be_read_is_an_error_in_words(
    board: Leaderboard, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    served = WebBoard(board, port=0, store=str(tmp_path / "file" / "store.sqlite"))
    served.start()
    status, text, _ = get(served, "/api/v1/runs")
    served.stop()
    assert status == 503
    assert "can't be opened" in json.loads(text)["error"]


def test_an_unknown_team_is_not_found_in_words(page: WebBoard) -> None:
    status, text, _ = get(page, "/api/v1/teams/mi/unknown")
    assert status == 404
    assert "no team 'unknown' on the track 'mi'" in json.loads(text)["error"]


def test_nothing_can_be_written(page: WebBoard) -> None:
    async def ask(session: aiohttp.ClientSession) -> list[int]:
        found = []
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            async with session.request(method, "/api/v1/leaderboard") as answer:
                found.append(answer.status)
        return found

    assert fetch(page, ask) == [405] * 4


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/etc/passwd"]
)
def test_files_beside_the_page_are_not_served(page: WebBoard, path: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> int:
        from yarl import URL

        async with session.get(URL(page.url.rstrip("/") + path, encoded=True)) as answer:
            return answer.status

    assert fetch(page, ask) in (403, 404)


def test_the_page_may_load_nothing_from_elsewhere(page: WebBoard) -> None:
    _, text, headers = get(page, "/")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "http://" not in text
    assert "https://" not in text


def test_a_page_gets_everything_then_what_changes_and_continues_after_its_last_update(
    bare_page: WebBoard, bare_board: Leaderboard
) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        async with session.get("/api/v1/events") as answer:
            stream = events(answer)
            snapshot = await next_event(stream, "snapshot")
            assert json.loads(snapshot["data"])["contest"]["name"] == "Finals"
            bare_board.team("late", "mi", "running")
            update = await next_event(stream, "update")
            assert [row["team"] for row in json.loads(update["data"])["rows"]][-1] == "late"
        bare_board.team("later", "mi", "running")
        headers = {"Last-Event-ID": update["id"]}
        async with session.get("/api/v1/events", headers=headers) as answer:
            missed = await next_event(events(answer), "update")
            assert [row["team"] for row in json.loads(missed["data"])["rows"]][-1] == "later"

    fetch(bare_page, ask)


@pytest.mark.parametrize("takes", ["gzip, deflate, br", "identity"])
def test_a_page_gets_the_encoding_that_it_accepts(page: WebBoard, takes: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> tuple[str, dict[str, str]]:
        headers = {"Accept-Encoding": takes}
        async with session.get("/api/v1/events", headers=headers) as answer:
            coding = answer.headers.get("Content-Encoding", "")
            return coding, await next_event(events(answer), "snapshot")

    coding, snapshot = fetch(page, ask)
    assert coding == ("gzip" if "gzip" in takes else "")
    assert json.loads(snapshot["data"])["contest"]["name"] == "Finals"


def test_a_page_that_followed_another_judge_gets_a_snapshot(page: WebBoard) -> None:
    async def ask(session: aiohttp.ClientSession) -> None:
        headers = {"Last-Event-ID": "0badcafe-17"}
        async with session.get("/api/v1/events", headers=headers) as answer:
            async for event in events(answer):
                if "event" in event:
                    assert event["event"] == "snapshot"
                    return

    fetch(page, ask)


def test_stopping_ends_open_streams_and_frees_the_port(board: Leaderboard) -> None:
    served = WebBoard(board, port=0)
    served.start()

    async def ask(session: aiohttp.ClientSession) -> int:
        async with session.get("/api/v1/events") as answer:
            stream = events(answer)
            await next_event(stream, "snapshot")
            await asyncio.to_thread(served.stop)
            return len([event async for event in stream])

    assert fetch(served, ask) >= 0
    again = WebBoard(board, port=served.port)
    again.start()
    again.stop()


def test_a_port_in_use_is_named_with_what_to_do(board: Leaderboard) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PageError, match=rf"127\.0\.0\.1:{port}.*in use.*--port"):
            WebBoard(board, port=port).start()


def test_stopping_a_page_that_never_started_does_nothing(board: Leaderboard) -> None:
    WebBoard(board, port=0).stop()


def test_a_host_that_is_not_ours_is_named(board: Leaderboard) -> None:
    with pytest.raises(PageError, match=r"192\.0\.2\.1"):
        WebBoard(board, host="192.0.2.1", port=0).start()


READ_TIMEOUT_S = 20


@pytest.fixture
def bare_board() -> Leaderboard:
    return Leaderboard("Finals")


@pytest.fixture
def bare_page(bare_board: Leaderboard) -> Iterator[WebBoard]:
    served = WebBoard(bare_board, port=0, period_s=0.01)
    served.start()
    yield served
    served.stop()


def connect(page: WebBoard, request: str) -> socket.socket:
    link = socket.create_connection((page.host, page.port), timeout=READ_TIMEOUT_S)
    link.sendall(f"{request}\r\nHost: test\r\n\r\n".encode())
    return link


def read_until(link: socket.socket, wanted: bytes) -> bytes:
    received = bytearray()
    while received.find(wanted, -len(wanted) - (1 << 16)) < 0:
        piece = link.recv(1 << 16)
        assert piece, f"the stream ended without {wanted!r}"
        received += piece
    return bytes(received)


def test_a_proxy_that_speaks_http_1_0_gets_no_chunks(bare_page: WebBoard) -> None:
    with connect(bare_page, "GET /api/v1/events HTTP/1.0") as link:
        received = read_until(link, b"Finals")
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b"retry: 1000\n\nid: ")


def test_a_page_that_takes_chunks_gets_whole_ones(bare_page: WebBoard) -> None:
    with connect(bare_page, "GET /api/v1/events HTTP/1.1") as link:
        body = read_until(link, b"}\n\n\r\n").partition(b"\r\n\r\n")[2]
    while body:
        size, _, rest = body.partition(b"\r\n")
        message, body = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        assert message.endswith(b"\n\n")


def test_the_head_of_a_stream_that_never_ends_is_refused(bare_page: WebBoard) -> None:
    with connect(bare_page, "HEAD /api/v1/events HTTP/1.1") as link:
        assert b" 405 " in read_until(link, b"\r\n\r\n")


def test_a_page_that_reads_late_delays_no_other_and_misses_nothing(bare_page: WebBoard) -> None:
    """Sixty updates of some 100 kB are more than a connection holds."""
    board = bare_page.board
    with (
        connect(bare_page, "GET /api/v1/events HTTP/1.1") as late,
        connect(bare_page, "GET /api/v1/events HTTP/1.1") as reader,
    ):
        read_until(reader, b"Finals")
        for number in range(60):
            for team in range(400):
                board.team(f"team {team}", "mi", "running", reason=f"{number}".rjust(190, "x"))
            board.team(f"team-{number}-", "mi", "running")
            read_until(reader, f"team-{number}-".encode())
        received = read_until(late, b"team-59-")
    ids = [int(number) for number in re.findall(rb"\nid: [0-9a-f]+-(\d+)\n", received)]
    assert len(ids) >= 60
    assert ids == list(range(ids[0], ids[-1] + 1))
