"""A team's side of a season: `bci-decode submit` and `bci-decode submissions`."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from bci_stream.contest.keys import TeamFile
from bci_stream.errors import BciError
from bci_stream.season.queue import PENDING
from bci_stream.season.units.jobs import file_sha256
from bci_stream.season.web.access import EMPTY, sign_request

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

TIMEOUT_S: Final = 60.0
POLL_S: Final = 1.0
WAITING_POLL_S: Final = 10.0
QUICK_S: Final = 30.0
"""A submission that waits is asked for every WAITING_POLL_S after that time: a thousand teams may do so."""
AWAY_S: Final = 120.0
"""How long a server may be away while a submission is followed."""
PIECE: Final = 1 << 16


class SeasonError(BciError):
    """A server that can't be reached, or that refused a request."""


class ServerAway(SeasonError):
    """A server that can't be reached, or is busy: a request may be made again."""


class SeasonClient:
    """Signed requests to a season's server. url: http:// or https://, with the server's path."""

    def __init__(self, url: str, team_file: TeamFile) -> None:
        self._url: SplitResult = urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise SeasonError(f"--server {url!r}: give an address such as https://cup.example.org")
        self._file = team_file

    def submit(
        self, package: Path, track: str, phase: str, sent: Callable[[int, int], None]
    ) -> dict[str, Any]:
        """Upload a package; returns the submission. sent: called with the bytes sent and in all."""
        if not package.is_file():
            raise SeasonError(
                f"{package} is not a file: pack the folder that holds Algorithm/ as .zip or .tar.gz"
            )
        asked = {"track": track, "phase": phase}
        limit = self._request("GET", "/api/v1/may-submit", asked)["limit_bytes"]
        size = package.stat().st_size
        if size > limit:
            raise SeasonError(
                f"{package} has {size} bytes; the server takes {limit}: leave out what is not needed"
            )
        query = {**asked, "name": package.name}
        return self._request(
            "POST",
            "/api/v1/submissions",
            query,
            (size, _pieces(package, size, sent)),
            file_sha256(package),
        )

    def submissions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._request("GET", "/api/v1/submissions")["submissions"]
        return found

    def submission(self, number: int) -> dict[str, Any]:
        return self._request("GET", f"/api/v1/submissions/{number}")

    def choose(self, number: int) -> dict[str, Any]:
        return self._request("POST", f"/api/v1/submissions/{number}/choose")

    def data(self) -> list[dict[str, Any]]:
        """The files that the team may download: track, name, bytes, sha256."""
        files: list[dict[str, Any]] = self._request("GET", "/api/v1/data")["files"]
        return files

    def fetch(self, file: dict[str, Any], target: Path, got: Callable[[int, int], None]) -> bool:
        """Download a file, or go on where an earlier download ended; False if it was there already.

        got: called with the bytes that are there and in all. Raises SeasonError if the hash differs.
        """
        size, sha256 = int(file["bytes"]), str(file["sha256"])
        if target.is_file() and target.stat().st_size == size and file_sha256(target) == sha256:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        have = part.stat().st_size if part.exists() else 0
        if have > size:
            part.unlink()
            have = 0
        if have < size or size == 0:
            self._receive(f"/api/v1/data/{sha256}", part, have, size, got)
        if file_sha256(part) != sha256:
            part.unlink()
            raise SeasonError(
                f"{file['name']}: what arrived has another SHA-256 than the server lists; it was removed: "
                "download it again"
            )
        part.replace(target)
        return True

    def _receive(
        self, path: str, part: Path, have: int, size: int, got: Callable[[int, int], None]
    ) -> None:
        """Append the rest of a file to its part; a server that is away is asked again for AWAY_S."""
        tried = time.monotonic()
        while True:
            try:
                with self._answer(
                    "GET", path, headers={"Range": f"bytes={have}-"} if have else {}
                ) as answer:
                    if answer.status not in (200, 206):
                        _read(answer.status, answer.read())
                    with part.open("ab" if answer.status == 206 else "wb") as out:
                        have = have if answer.status == 206 else 0
                        while piece := answer.read(PIECE):
                            out.write(piece)
                            have += len(piece)
                            got(have, size)
                            tried = time.monotonic()
            except (ServerAway, OSError, http.client.HTTPException) as error:
                if time.monotonic() - tried > AWAY_S:
                    raise ServerAway(f"the download can't go on: {error}") from error
                time.sleep(POLL_S)
                have = part.stat().st_size if part.exists() else 0
                continue
            if have >= size:
                return
            if time.monotonic() - tried > AWAY_S:
                raise ServerAway("the download can't go on: the server ends it early")

    @contextmanager
    def _answer(
        self, method: str, path: str, *, headers: dict[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer to a signed request without a body, to be read in pieces."""
        path = self._url.path.rstrip("/") + path
        signature = sign_request(self._file.team, self._file.token_bytes, method, path, EMPTY)
        connection = self._connect()
        try:
            connection.request(method, path, headers={"Authorization": signature, **headers})
            yield connection.getresponse()
        finally:
            connection.close()

    def follow(
        self, number: int, changed: Callable[[dict[str, Any]], None], stop: threading.Event
    ) -> dict[str, Any]:
        """Wait until a submission is judged or has failed; changed: called when its words change.

        A server that is away for less than AWAY_S is waited for. Returns early if `stop` is set.
        """
        words, seen, began = "", time.monotonic(), time.monotonic()
        while True:
            try:
                view = self.submission(number)
                seen = time.monotonic()
                if view["words"] != words:
                    words = view["words"]
                    changed(view)
                if view["stage"] not in PENDING:
                    return view
            except ServerAway:
                if time.monotonic() - seen > AWAY_S:
                    raise
                view = {"stage": "received"}
            waits = view["stage"] in ("received", "queued") and time.monotonic() - began > QUICK_S
            if stop.wait(WAITING_POLL_S if waits else POLL_S):
                return view

    def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: tuple[int, Iterator[bytes]] | None = None,
        body_sha256: str = EMPTY,
    ) -> dict[str, Any]:
        path = self._url.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        token = self._file.token_bytes
        headers = {"Authorization": sign_request(self._file.team, token, method, path, body_sha256)}
        if body is not None:
            headers |= {"X-Content-SHA256": body_sha256, "Content-Length": str(body[0])}
        connection = self._connect()
        try:
            # A server that refuses in the middle may have sent its answer already.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body[1] if body else None, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            where = f"{self._url.scheme}://{self._url.netloc}"
            raise ServerAway(
                f"the server {where} can't be reached: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()
        return _read(answer.status, content)

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def _read(status: int, content: bytes) -> dict[str, Any]:
    """Raises SeasonError with the server's words if it refused."""
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        kind = ServerAway if status >= 500 else SeasonError
        raise kind(
            f"the server answered {status}: is this the address of a season (bci-judge serve)?"
        )
    if status >= 400:
        kind = ServerAway if status == 503 else SeasonError
        raise kind(f"the server refused: {answer.get('error', status)}")
    return answer


def _pieces(path: Path, size: int, sent: Callable[[int, int], None]) -> Iterator[bytes]:
    done = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
            done += len(piece)
            sent(done, size)


# --- commands ---------------------------------------------------------------------------------


def submit_and_follow(
    client: SeasonClient,
    package: Path,
    track: str,
    phase: str,
    *,
    wait: bool,
    echo: Callable[[str], None],
    stop: threading.Event,
) -> bool:
    """Upload, follow and describe a submission; False if it was not judged."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("uploading"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("upload", total=None)
        made = client.submit(
            package,
            track,
            phase,
            lambda done, size: progress.update(bar, completed=done, total=size),
        )
    echo(f"submission {made['id']} (phase {made['phase']}, track {made['track']}): received")
    if not wait:
        return True
    last = client.follow(made["id"], lambda view: echo(f"{view['stage']}: {view['words']}"), stop)
    if last["stage"] in PENDING:
        echo(f"it goes on at the server: bci-decode submissions {made['id']} shows it")
        return True
    for line in describe_submission(last):
        echo(line)
    return bool(last["stage"] == "judged")


def describe_submission(view: dict[str, Any]) -> Iterator[str]:
    """All that the team may see of a submission, in lines."""
    yield f"submission {view['id']}: {view['name']}, phase {view['phase']}, track {view['track']}"
    yield f"{view['stage']}: {view['words']}"
    if view["reason"]:
        yield f"reason: {view['reason']}"
    if view["score"] is not None:
        yield f"score: {view['score']:.4g} {view['unit']}".rstrip()
    for subject in view["subjects"]:
        shown = "void" if subject["score"] is None else f"{subject['score']:.4g}"
        yield f"  subject {subject['subject']}: {shown}"
    for log in view["logs"]:
        yield f"run log: {log['log']} on the server, SHA-256 {log['sha256']}"
    if view["report"]:
        yield "report:"
        yield from (f"  {line}" for line in view["report"].splitlines())


def download_all(
    client: SeasonClient,
    track: str | None,
    out: Path,
    *,
    list_only: bool,
    echo: Callable[[str], None],
) -> None:
    """Download all files that the team may have, of one track or of all, into OUT/TRACK/; or list them."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    files = [file for file in client.data() if track in (None, file["track"])]
    if not files:
        echo("the season offers no data for download")
    for file in files:
        parts = [p for p in str(file["name"]).split("/") if p not in ("", ".", "..")]
        target = out.joinpath(str(file["track"]), *parts)
        if list_only:
            echo(f"{file['sha256']}  {file['bytes']:>12}  {file['track']}/{file['name']}")
            continue
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task(target.name, total=file["bytes"])
            new = client.fetch(file, target, partial(_advance, progress, bar))
        echo(f"{target}: {'downloaded, SHA-256 verified' if new else 'was there already'}")


def _advance(progress: "Progress", bar: "TaskID", have: int, _size: int) -> None:
    progress.update(bar, completed=have)


def list_lines(made: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each submission."""
    if not made:
        yield "no submission yet"
    for view in made:
        score = "" if view["score"] is None else f"{view['score']:.2f} {view['unit']}".rstrip()
        place = f"{view['phase']}, {view['track']}"
        mark = "*" if view["chosen"] else " "
        yield f"{mark}{view['id']:>5}  {place:<24} {view['stage']:<13} {score:<16} {view['name']}"
