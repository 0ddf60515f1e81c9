"""Data for teams: the files of training and calibration sets that a season offers for download.

`downloads` of a track in contest.toml names files and folders. Of a folder that `bci-replay prepare` made,
the training set is offered; a file of a test set, or one that a phase plays, is refused when the server
starts.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from bci_stream.contest.checks import hashed_url
from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError
from bci_stream.files import atomic_write
from bci_stream.leaderboard.web.connections import TimedConnection
from bci_stream.season.units.jobs import file_sha256
from bci_stream.season.uploads import UploadRefused
from tracks.common.reasons import Reason
from tracks.registry import TRACKS

HASHES: Final = "season-downloads.json"
"""In the contest's folder: hashes that need not be computed again while size and time of a file stay."""
MANIFEST: Final = "manifest.json"
TRAIN: Final = "train"
_TEST_FILE = re.compile(rf"({'|'.join(TRACKS)})_test_.*|.*\.truth\.json")
_TEST_FOLDERS = ("test", "organiser")


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """A file that teams of a track may download; name: its path in the set, shown and proposed only."""

    track: str
    name: str
    path: Path
    bytes: int
    sha256: str

    def view(self) -> dict[str, Any]:
        """What a team sees of it."""
        shown = asdict(self)
        del shown["path"]
        return shown


def offered_files(contest: Contest) -> list[OfferedFile]:
    """All files that the contest offers. Raises ContestError for one that must not leave the server."""
    hashes = _Hashes(contest.folder / HASHES)
    played = list(_played(contest))
    offered = []
    for track, plan in contest.tracks.items():
        for text in plan.downloads:
            place = contest.folder / text
            where = f"tracks.{track}: downloads {text!r}"
            if not place.exists():
                raise ContestError(f"{where}: there is no such file or folder")
            files = list(_files(place))
            if not files:
                raise ContestError(f"{where}: {_nothing_in(place)}")
            home = place if place.is_dir() else place.parent
            for path in files:
                _refuse_secret(path, where)
                size, sha256 = path.stat().st_size, hashes.of(path)
                _refuse_played_content(path, size, sha256, played, hashes, where)
                name = path.relative_to(home).as_posix()
                offered.append(OfferedFile(track, name, path, size, sha256))
    hashes.save()
    return offered


def _files(place: Path) -> Iterator[Path]:
    """The files that an entry offers: itself, those of a folder, or the training set of a prepared one."""
    if place.is_file():
        yield place
        return
    prepared = _is_prepared(place / MANIFEST)
    for path in sorted((place / TRAIN if prepared else place).rglob("*")):
        if path.is_file():
            yield path


def _nothing_in(place: Path) -> str:
    if _is_prepared(place / MANIFEST):
        return (
            "`bci-replay prepare` made no training set there, which teams could have: give it --train-blocks "
            "or --train-persons"
        )
    return "there is no file in it"


def _is_prepared(manifest: Path) -> bool:
    try:
        content = json.loads(manifest.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.keys() >= {"track", "split", "key", "files"}


def _played(contest: Contest) -> Iterator[str]:
    for plan in contest.tracks.values():
        yield from plan.recordings
    for phase in contest.phases:
        for changed in phase.tracks.values():
            yield from changed.recordings


def _refuse_secret(path: Path, where: str) -> None:
    real = path.resolve()
    if _TEST_FILE.fullmatch(real.name) or real.parent.name in _TEST_FOLDERS:
        raise ContestError(
            f"{where}: {path.name} is of a test set, which never leaves the server: offer the folder that "
            "`bci-replay prepare` made, of which teams get the training set"
        )


def _refuse_played_content(
    path: Path, size: int, sha256: str, played: list[str], hashes: "_Hashes", where: str
) -> None:
    """By path, and by content: a copy under another name is the same recording."""
    refusal = ContestError(
        f"{where}: {path.name} is played in the contest, which teams must not have: offer other recordings"
    )
    for text in played:
        if (url := hashed_url(text)) is not None:
            if url.sha256 == sha256:
                raise refusal
            continue
        place = hashes.folder / text.partition("?")[0]
        if not place.exists():
            continue
        if path.resolve().is_relative_to(place.resolve()):
            raise refusal
        files = [place] if place.is_file() else (p for p in place.rglob("*") if p.is_file())
        if any(file.stat().st_size == size and hashes.of(file) == sha256 for file in files):
            raise refusal


class _Hashes:
    """SHA-256 of files, kept while their size and time stay."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._path = path
        try:
            self._known: dict[str, list[Any]] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            self._known = {}

    def of(self, path: Path) -> str:
        found, state = self._known.get(str(path)), path.stat()
        if found is None or found[:2] != [state.st_size, state.st_mtime_ns]:
            found = [state.st_size, state.st_mtime_ns, file_sha256(path)]
            self._known[str(path)] = found
        return str(found[2])

    def save(self) -> None:
        text = json.dumps(self._known).encode()
        if self._known:
            atomic_write(self._path, lambda file: file.write(text), secret=True)


AT_ONCE: Final = 4
"""Downloads of one team at a time."""


class DataFiles:
    """The files that teams may download."""

    def __init__(self, contest: Contest, offered: Sequence[OfferedFile]) -> None:
        self._contest = contest
        self._offered = offered
        self._sending: Counter[str] = Counter()

    def of_team(self, team: str) -> list[OfferedFile]:
        """Those of the tracks that the team takes part in."""
        return [file for file in self._offered if self._contest.takes(team, file.track)]

    def answer(self, request: web.Request, team: str) -> web.StreamResponse:
        """The file of the request's hash, or the part that it asks for. Raises UploadRefused."""
        sha256 = request.match_info["sha256"]
        found = next((file for file in self.of_team(team) if file.sha256 == sha256), None)
        if found is None or not found.path.is_file():
            raise UploadRefused(404, Reason("no_download", sha256=sha256[:12]))
        if self._sending[team] >= AT_ONCE:
            raise UploadRefused(429, Reason("downloads_at_once", limit=AT_ONCE))
        name = found.path.name.encode("ascii", "replace").decode().replace('"', "")
        return _CountedFile(
            found.path,
            self._sending,
            team,
            {
                hdrs.CONTENT_TYPE: "application/octet-stream",
                hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"',
                "X-Content-SHA256": sha256,
            },
        )


class _CountedFile(web.FileResponse):
    """A file that counts as a download of its team while it is sent, and as an answer in the making."""

    def __init__(
        self, path: Path, sending: Counter[str], team: str, headers: dict[str, str]
    ) -> None:
        super().__init__(path, headers=headers)
        self._sending = sending
        self._team = team

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        connection = request.transport.get_protocol() if request.transport is not None else None
        timed = connection if isinstance(connection, TimedConnection) else None
        if timed is not None:
            timed.begin_answer(events=False)
        self._sending[self._team] += 1
        try:
            return await super().prepare(request)
        finally:
            self._sending[self._team] -= 1
            if timed is not None:
                timed.end_answer()
