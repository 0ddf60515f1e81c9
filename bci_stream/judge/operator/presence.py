"""Who is here, who is missing and why, as the judge sees the streams. Used by the judge's thread only."""

from collections.abc import Callable
from dataclasses import dataclass

from bci_stream.contest.contest import Contest
from bci_stream.wire.messages import SOFTWARE, Behind, Ready, ResultsMessage, software
from tracks.common.reasons import Reason

MOST_UNLISTED = 100
"""Names that are on no list and of which refusals are kept: anyone can send any name."""

HERE_S = 10.0
"""A team on no list whose messages were refused this long ago, and that sent none since, is not shown any
more; one on the list keeps the refusal as the reason why it is missing."""


@dataclass
class SeenTeam:
    """What was last seen of a team; times are in seconds of the judge's clock."""

    verified_at: float = float("-inf")
    refused_at: float = float("-inf")
    refusal: Reason | None = None
    software: str = ""
    behind_s: float = 0.0


class PresenceTable:
    """Folds verified and refused messages of the teams.

    here: names of the teams whose streams are open and verified.
    """

    def __init__(
        self, contest: Contest, now: Callable[[], float], here: Callable[[], list[str]]
    ) -> None:
        self._contest = contest
        self._now = now
        self._here = here
        self._seen: dict[str, SeenTeam] = {}

    def verified(self, message: ResultsMessage) -> None:
        """A message that a team has sent."""
        seen = self._seen.setdefault(message.team, SeenTeam())
        seen.verified_at = self._now()
        if isinstance(message, Ready):
            seen.software = message.software[:60]
        elif isinstance(message, Behind):
            seen.behind_s = message.seconds

    def refused(self, team: str, why: Reason) -> None:
        """A message in a team's name was not accepted."""
        is_new = team not in self._seen and team not in self._contest.team_list()
        if is_new and len(self._seen) >= MOST_UNLISTED:
            return
        seen = self._seen.setdefault(team, SeenTeam())
        seen.refused_at = self._now()
        seen.refusal = why

    def names(self) -> list[str]:
        """Every team that is listed, or was seen lately."""
        recent = self._now() - HERE_S
        seen = (
            team
            for team, at in self._seen.items()
            if at.verified_at > float("-inf") or at.refused_at > recent
        )
        return sorted({*self._contest.team_list(), *seen})

    def is_here(self, team: str) -> bool:
        return team in self._here()

    def software_of(self, team: str) -> str:
        return self._seen.get(team, SeenTeam()).software

    def remark(self, team: str) -> Reason | None:
        """Why a team is missing or may fail; None if all is well."""
        seen = self._seen.get(team, SeenTeam())
        if self.is_here(team):
            if seen.behind_s > 0:
                return Reason("team_behind", behind_s=seen.behind_s)
            return _old_version(seen.software)
        is_listed = team in self._contest.team_list()
        since = float("-inf") if is_listed else self._now() - HERE_S
        is_refused = seen.refused_at > max(seen.verified_at, since)
        if is_refused and seen.refusal is not None:
            return seen.refusal
        return Reason("stream_lost") if seen.verified_at > float("-inf") else Reason("not_seen")


def _old_version(theirs: str) -> Reason | None:
    """A team with an earlier version of this software than the judge's; others are not compared."""
    from packaging.version import InvalidVersion, Version

    name, _, number = theirs.partition(" ")
    ours = software().partition(" ")[2]
    if name != SOFTWARE or not number or not ours:
        return None
    try:
        is_old = Version(number) < Version(ours)
    except InvalidVersion:
        return None
    return Reason("old_version", version=number, judge_version=ours) if is_old else None
