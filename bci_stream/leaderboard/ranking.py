"""Rows of the leaderboard, and their ranks: a pure function of the rows."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

TIE_RULE: Final = (
    "Higher score first; equal scores: higher accuracy, then less data used a trial; "
    "still equal: the teams share the rank."
)

STATUSES: Final = (
    "waiting",
    "running",
    "lagging",
    "gone",
    "missing",
    "finished",
    "stopped",
    "crashed",
    "timeout",
    "disqualified",
)
"""The statuses of a team; the last five are final, and are the `end` reasons of a run log. missing: a team of
the contest's list that has not come."""

FINAL: Final = frozenset(STATUSES[5:])
IN_PLAY: Final = frozenset(STATUSES[:3])
"""Teams that may still be asked something."""


@dataclass(frozen=True, slots=True)
class Qualifying:
    """A contest's qualifying line: the first `top` teams with at least `least_score`."""

    top: int | None = None
    least_score: float | None = None

    @property
    def drawn(self) -> bool:
        return self.top is not None or self.least_score is not None

    def admits(self, rank: int, score: float) -> bool:
        in_top = self.top is None or rank <= self.top
        return in_top and (self.least_score is None or score >= self.least_score)


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """What the leaderboard shows of one team on one track.

    rank: None for a team that was asked nothing (yet), and for a disqualified one. name: its display name;
    empty if it has its id only.
    accuracy: share of right answers among what was judged; None on a track without classes.
    used, used_unit: mean data used a trial; None if the track's rules do not count it.
    latency_p50_s, latency_p99_s: how long its reports took, as the judge measured them.
    reason: why the team has its status, in English. reasons: the same as codes with parameters;
    empty if the reason is free text. qualifies: above the contest's line; None if it draws none.
    leads, calibration, size_mib, reaction_ms: what the host measured of a submission of 2026, see `measured`.
    """

    team: str
    track: str
    unit: str = ""
    rank: int | None = None
    score: float = 0.0
    accuracy: float | None = None
    used: float | None = None
    used_unit: str = "s"
    trials: int = 0
    right: int = 0
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    status: str = "waiting"
    lag_s: float = 0.0
    reason: str = ""
    qualifies: bool | None = None
    reasons: list[dict[str, Any]] = field(default_factory=list)
    name: str = ""
    leads: float | None = None
    calibration: float | None = None
    size_mib: float | None = None
    reaction_ms: float | None = None

    @property
    def ranked(self) -> bool:
        """An empty run (nothing was played, or the team did not come) has no rank."""
        return self.status != "disqualified" and self.trials > 0

    @property
    def title(self) -> str:
        """The name that people read."""
        return self.name or self.team


def rank(
    rows: Iterable[LeaderboardRow], qualifying: Qualifying | None = None
) -> list[LeaderboardRow]:
    """The rows with their ranks, track by track, best first; ties follow TIE_RULE."""
    line = qualifying or Qualifying()
    by_track: dict[str, list[LeaderboardRow]] = {}
    for row in rows:
        by_track.setdefault(row.track, []).append(row)
    return [row for track in sorted(by_track) for row in _rank_track(by_track[track], line)]


def best_runs(rows: Iterable[LeaderboardRow]) -> list[LeaderboardRow]:
    """One row per team and track: the one that ranks first."""
    by_team: dict[tuple[str, str], list[LeaderboardRow]] = {}
    for row in rows:
        by_team.setdefault((row.track, row.team), []).append(row)
    return [rank(group)[0] for group in by_team.values()]


def _rank_track(rows: Sequence[LeaderboardRow], line: Qualifying) -> list[LeaderboardRow]:
    ranked = sorted((row for row in rows if row.ranked), key=lambda row: (*_merit(row), row.team))
    unranked = sorted(
        (row for row in rows if not row.ranked),
        key=lambda row: (row.status == "disqualified", row.team),
    )
    placed: list[LeaderboardRow] = []
    for index, row in enumerate(ranked):
        tied = bool(placed) and _merit(row) == _merit(placed[-1])
        place = placed[-1].rank if tied else index + 1
        assert place is not None
        admitted = line.admits(place, row.score)
        placed.append(_placed(row, place, admitted if line.drawn else None))
    return placed + [_placed(row, None, False if line.drawn else None) for row in unranked]


def _placed(row: LeaderboardRow, place: int | None, qualifies: bool | None) -> LeaderboardRow:
    """The same object if nothing changed: of a hundred teams few move at a time."""
    if (row.rank, row.qualifies) == (place, qualifies):
        return row
    return replace(row, rank=place, qualifies=qualifies)


def _merit(row: LeaderboardRow) -> tuple[float, float, float]:
    """A sort key: smaller is better."""
    accuracy = row.accuracy if row.accuracy is not None else 0.0
    return -row.score, -accuracy, row.used if row.used is not None else float("inf")


COLUMNS: Final = ("rank", *(f.name for f in fields(LeaderboardRow) if f.name != "rank"))
CSV_COLUMNS: Final = tuple(name for name in COLUMNS if name != "reasons")
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def to_records(rows: Iterable[LeaderboardRow]) -> list[dict[str, Any]]:
    """One dict per row, its keys in the order of COLUMNS."""
    return [{name: values[name] for name in COLUMNS} for values in map(asdict, rows)]


def to_csv(rows: Iterable[LeaderboardRow]) -> str:
    """A header line and a line per row; a cell without a value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for record in to_records(rows):
        writer.writerow({name: _cell(record[name]) for name in CSV_COLUMNS})
    return text.getvalue()


def _cell(value: object) -> object:
    """Spreadsheets run text that looks like a formula, and teams choose their own names."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return value
