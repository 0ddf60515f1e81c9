"""The phases of a contest, `[[phases]]` in contest.toml: when teams may submit, and what they see."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from bci_stream.errors import ContestError
from bci_stream.wire.names import checked_name

Quota = Annotated[int, msgspec.Meta(ge=1)]


class PhaseTrack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a phase changes on one track: its recordings, and rules that differ from the contest's."""

    recordings: list[str] = []
    rules: dict[str, Any] = {}


class Phase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A phase, such as a preliminary round or a final.

    opens, closes: when submissions are taken; a time without an offset is in `time_zone`. after: the name of
    an earlier phase; only teams that went on from it may submit. tracks: empty for all of the contest.
    quota_a_day, quota: submissions of a team on a track; a day begins at midnight in `time_zone`.
    shows: what teams see of results: the score, the score of each subject too, or nothing. counts: which of
    a team's submissions counts; "chosen" is the last one until the team chooses. top, least_score: the teams
    that go on: the first `top` with at least `least_score`.
    """

    name: str
    opens: datetime | None = None
    closes: datetime | None = None
    time_zone: str = "UTC"
    after: str = ""
    tracks: dict[str, PhaseTrack] = {}
    quota_a_day: Quota | None = None
    quota: Quota | None = None
    shows: Literal["score", "subjects", "nothing"] = "score"
    counts: Literal["best", "last", "chosen"] = "best"
    top: Quota | None = None
    least_score: float | None = None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    def has_begun(self, now: datetime) -> bool:
        return self.opens is None or self.in_zone(self.opens) <= now

    def has_ended(self, now: datetime) -> bool:
        return self.closes is not None and self.in_zone(self.closes) <= now

    def is_open(self, now: datetime) -> bool:
        """Whether submissions are taken; now: with a time zone."""
        return self.has_begun(now) and not self.has_ended(now)

    def has_track(self, track: str) -> bool:
        return not self.tracks or track in self.tracks

    def shown_time(self, at: datetime | None) -> str:
        """A time of this phase in its own zone; empty for None."""
        return "" if at is None else f"{self.in_zone(at):%Y-%m-%d %H:%M %Z}"

    def in_zone(self, at: datetime) -> datetime:
        """A time in the phase's zone; one without an offset is taken to be in it."""
        zone = self.zone
        return at.replace(tzinfo=zone) if at.tzinfo is None else at.astimezone(zone)


ALWAYS: Final = Phase("open")
"""The phase of a contest whose file has none: open at all times, without quotas."""


def check_phases(phases: Sequence[Phase], tracks: Sequence[str], where: str) -> None:
    """Raise ContestError, with the file `where`, for phases that can't be used together."""
    earlier: dict[str, Phase] = {}
    for phase in phases:
        about = f"{where}, phase {phase.name!r}"
        checked_name(phase.name, "phase")
        if phase.name in earlier:
            raise ContestError(f"{about}: there are two of this name; give each its own")
        _check_times(phase, about)
        if unknown := [track for track in phase.tracks if track not in tracks]:
            raise ContestError(
                f"{about}: the contest has no track {unknown[0]!r}; add it to `tracks` of the contest"
            )
        if phase.after:
            _check_after(phase.after, earlier, about)
        earlier[phase.name] = phase


def _check_times(phase: Phase, about: str) -> None:
    try:
        assert phase.zone
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ContestError(
            f"{about}: no time zone {phase.time_zone!r}; give a name such as 'Asia/Shanghai' or 'UTC'"
        ) from error
    if phase.opens is not None and phase.closes is not None:
        opens, closes = phase.in_zone(phase.opens), phase.in_zone(phase.closes)
        if closes <= opens:
            raise ContestError(f"{about}: it closes ({closes}) before it opens ({opens})")


def _check_after(name: str, earlier: dict[str, Phase], about: str) -> None:
    if name not in earlier:
        known = ", ".join(earlier) or "none"
        raise ContestError(
            f"{about}: `after` names no earlier phase ({name!r}); before it stand: {known}"
        )
    if earlier[name].top is None and earlier[name].least_score is None:
        raise ContestError(
            f"{about}: phase {name!r} lets no team go on; give it `top` or `least_score`"
        )
