"""Downloads of the season's data for teams: resumable (HTTP Range), bounded for each team."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from aiohttp import hdrs, web

from bci_stream.contest.contest import Contest
from bci_stream.season.downloads import OfferedFile
from bci_stream.season.uploads import UploadRefused
from tracks.common.reasons import Reason

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

    async def send(self, request: web.Request, team: str) -> web.StreamResponse:
        """Send the file of the request's hash, or the part that it asks for. Raises UploadRefused."""
        sha256 = request.match_info["sha256"]
        found = next((file for file in self.of_team(team) if file.sha256 == sha256), None)
        if found is None or not found.path.is_file():
            raise UploadRefused(404, Reason("no_download", sha256=sha256[:12]))
        if self._sending[team] >= AT_ONCE:
            raise UploadRefused(429, Reason("downloads_at_once", limit=AT_ONCE))
        name = found.path.name.encode("ascii", "replace").decode().replace('"', "")
        answer = web.FileResponse(
            found.path,
            headers={
                hdrs.CONTENT_TYPE: "application/octet-stream",
                hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"',
                "X-Content-SHA256": sha256,
            },
        )
        self._sending[team] += 1
        try:
            await answer.prepare(request)
        finally:
            self._sending[team] -= 1
        return answer
