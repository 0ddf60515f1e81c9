"""Where a judge shows what happens to the teams: a leaderboard or a progress bar."""

from typing import Any, Protocol

from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.run import Run


class Sink(Protocol):
    """Called on the judge's thread."""

    def team(
        self,
        name: str,
        track: str,
        status: str = ...,
        reason: str | Reason = ...,
        lag_s: float = ...,
    ) -> None:
        """Show the state of a team; lag_s: by how much its decoder is behind."""

    def alarm(self, reason: Reason) -> None:
        """Show something that the organiser must know."""

    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: list[Verdict], run: Run
    ) -> None:
        """Show an event of a team's run, with the verdicts that it gave; it is on disk."""
