"""When a run begins (once all teams are ready, when the operator gives go, or at a time), and its pace."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from bci_stream.errors import ContestError, SourceError

ALLOWED = '"ready", "go" or "at TIME", such as "at 2026-08-20 14:00+08:00"'


@dataclass(frozen=True)
class WaitingTeams:
    """The teams of a run that has not begun.

    ready: those that are ready. complete: all that are expected are ready. waited_s: how long ago the first
    one became ready.
    """

    ready: tuple[str, ...]
    complete: bool
    waited_s: float = 0.0


@dataclass(frozen=True)
class StartPolicy:
    """`start` of a contest file.

    ready: a run begins when all expected teams are ready, and join_s after the first one without those that
    are absent. go: when the operator gives go. at: at the time `at`. A run needs one team that is ready; the
    operator's go begins it under each policy.
    """

    kind: Literal["ready", "go", "at"] = "ready"
    at: datetime | None = None
    join_s: float = 60.0

    def may_start(self, teams: WaitingTeams, now: datetime) -> bool:
        """Whether the run may begin without the operator's go; now: with a time zone."""
        if not teams.ready:
            return False
        if self.kind == "at":
            assert self.at is not None
            return now >= self.at
        return self.kind == "ready" and (teams.complete or teams.waited_s >= self.join_s)

    def __str__(self) -> str:
        if self.kind == "at":
            assert self.at is not None
            return f"at {self.at.isoformat(sep=' ', timespec='seconds')}, or at go"
        if self.kind == "go":
            return "when the operator gives go"
        return f"when all are ready, or {self.join_s:g} s after the first one is"


def parse_start(text: str, join_s: float = 60.0) -> StartPolicy:
    """Read `ready`, `go` or `at TIME`. Raises ContestError for anything else.

    TIME is ISO 8601, with a date; without an offset it is in this machine's time zone.
    """
    if text == "ready":
        return StartPolicy("ready", None, join_s)
    if text == "go":
        return StartPolicy("go", None, join_s)
    word, _, time = text.partition(" ")
    if word != "at":
        raise ContestError(f"start = {text!r}: allowed is {ALLOWED}")
    try:
        if len(time.strip()) <= len("2026-08-20"):
            raise ValueError("a date and a time of day are needed")
        at = datetime.fromisoformat(time.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise ContestError(f"start = {text!r}: {error}; allowed is {ALLOWED}") from error
    return StartPolicy("at", at, join_s)


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class StartGate:
    """Decides for each run of a contest whether it may begin. The judge's thread uses it.

    policy_of: the policy of a track. teams_of: the teams that a track expects; if it lists none, `team_count`
    of any are expected. The operator's go begins a run whatever the policy.
    """

    policy_of: Callable[[str], StartPolicy]
    teams_of: Callable[[str], Collection[str]]
    team_count: int = 1
    time: Callable[[], datetime] = _utc_now

    def __post_init__(self) -> None:
        self._first_ready: dict[str, float] = {}

    def missing(self, track: str, present: Collection[str]) -> list[str]:
        """The teams that the track expects and that are not present, in the order of its list."""
        return [team for team in self.teams_of(track) if team not in present]

    def may_start(self, run: str, track: str, ready: Collection[str], at: float) -> bool:
        """Whether a run with these teams may begin; at: seconds of a clock that never goes back."""
        if not ready:
            self._first_ready.pop(run, None)
            return False
        waited_s = at - self._first_ready.setdefault(run, at)
        expected = self.teams_of(track)
        complete = set(expected) <= set(ready) if expected else len(ready) >= self.team_count
        teams = WaitingTeams(tuple(sorted(ready)), complete, waited_s)
        return self.policy_of(track).may_start(teams, self.time())


@dataclass(frozen=True)
class Pace:
    """Real time, a multiple of it, or lockstep.

    speed: how many times faster than the recording; lockstep has no speed of its own.
    """

    lockstep: bool
    speed: float = 1.0

    def __str__(self) -> str:
        if self.lockstep:
            return "lockstep"
        return "realtime" if self.speed == 1.0 else f"{self.speed:g}"


def parse_pace(text: str) -> Pace:
    """Read `lockstep`, `realtime` or a factor; raises SourceError for anything else."""
    if text == "lockstep":
        return Pace(lockstep=True)
    try:
        speed = 1.0 if text == "realtime" else float(text)
    except ValueError:
        speed = 0.0
    if not 0.0 < speed < 1e6:
        raise SourceError(f"pace {text!r}: 'lockstep', 'realtime' or a factor like 2.0 is expected")
    return Pace(lockstep=False, speed=speed)
