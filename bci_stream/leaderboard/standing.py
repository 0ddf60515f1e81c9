"""The standing over all tracks, and the awards: pure functions of the ranked rows."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bci_stream.contest.contest import Award
from bci_stream.leaderboard.ranking import LeaderboardRow

STANDING_RULE: Final = (
    "Sum of the places on all tracks, the smallest first; a team without a place on a track counts there as "
    "the one after the last. Equal sums: the better best place, then the next; still equal: shared."
)


@dataclass(frozen=True, slots=True)
class StandingRow:
    """A team over all tracks. places: by track, None where it has none. total: see STANDING_RULE."""

    rank: int
    team: str
    name: str
    places: dict[str, int | None]
    total: int

    @property
    def title(self) -> str:
        return self.name or self.team


@dataclass(frozen=True, slots=True)
class GivenAward:
    """An award that a team gets on a track; prize: empty if none comes with it, or its score is too low."""

    award: str
    track: str
    team: str
    name: str
    rank: int
    score: float
    prize: str = ""

    @property
    def title(self) -> str:
        return self.name or self.team


def standing(rows: Sequence[LeaderboardRow]) -> list[StandingRow]:
    """The teams that have a place on at least one track, by STANDING_RULE."""
    tracks = sorted({row.track for row in rows})
    last = {t: sum(row.track == t and row.rank is not None for row in rows) for t in tracks}
    places = {(row.track, row.team): row.rank for row in rows}
    names = {row.team: row.name for row in rows}
    teams = sorted({row.team for row in rows if row.rank is not None})
    counted = {t: [places.get((on, t)) or last[on] + 1 for on in tracks] for t in teams}
    merit = {team: (sum(counts), sorted(counts)) for team, counts in counted.items()}
    ordered = sorted(teams, key=lambda team: (*merit[team], team))
    merits = sorted(merit.values())
    return [
        StandingRow(
            rank=1 + bisect_left(merits, merit[team]),
            team=team,
            name=names[team],
            places={track: places.get((track, team)) for track in tracks},
            total=merit[team][0],
        )
        for team in ordered
    ]


def give_awards(rows: Sequence[LeaderboardRow], awards: Sequence[Award]) -> list[GivenAward]:
    """The awards of each track, the highest first.

    An award with n places is for the next n ranks; teams that share a rank share the award. The place of a
    team below the award's least score stays empty.
    """
    given: list[GivenAward] = []
    for track in sorted({row.track for row in rows}):
        placed = sorted(
            ((row.rank, row) for row in rows if row.track == track and row.rank is not None),
            key=lambda item: (item[0], item[1].team),
        )
        above = 0
        for award in awards:
            if award.tracks and track not in award.tracks:
                continue
            ranks = range(above + 1, above + award.places + 1)
            above += award.places
            given += [_give(award, place, row) for place, row in placed if place in ranks
                      and (award.least_score is None or row.score >= award.least_score)]  # fmt: skip
    return given


def _give(award: Award, place: int, row: LeaderboardRow) -> GivenAward:
    has_prize = award.prize_above is None or row.score > award.prize_above
    prize = award.prize if has_prize else ""
    return GivenAward(award.name, row.track, row.team, row.name, place, row.score, prize)
