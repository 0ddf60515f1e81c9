"""The contest file, contest.toml. Every setting has a default, so a demo needs no file."""

import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from bci_stream.contest.keys import Keys, Results
from bci_stream.errors import ContestError, RuleError
from bci_stream.files import state_dir
from bci_stream.wire.names import checked_name
from tracks.registry import TRACKS

Count = Annotated[int, msgspec.Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of a run.

    compute_factor: compute time of a run, as a multiple of the duration of its data.
    compute_extra_s: added to that, for start-up.
    silence_s: lockstep: compute time for one packet.
    join_s: how long to wait for the expected teams.
    grace_packets: real time: how many packets late a report may arrive and still count as made before them.
    return_s: how long a team, or a replay, whose stream was lost may take to come back into the run.
    outage_s: a fault of replay, judge or their link that is longer than this is an outage.
    reports_a_packet, message_mb_a_minute, message_mb: how many reports a team may send for each packet (and
    100 more), and how many megabytes of messages in a minute and in a run; above that it is disqualified.
    The others hold for each submission that runs here: cpu_s of processor time and memory_mb of all its
    processes together, processes and threads at one moment, open_files of each process, disk_mb that it may
    write, output_mb to stdout and stderr. strength: the least sandbox; `auto`: the strongest that this
    machine has.
    """

    compute_factor: float = 1.0
    compute_extra_s: float = 60.0
    silence_s: float = 60.0
    join_s: float = 60.0
    grace_packets: float = 1.0
    return_s: Annotated[float, msgspec.Meta(ge=0)] = 10.0
    outage_s: Annotated[float, msgspec.Meta(gt=0)] = 0.25
    reports_a_packet: Annotated[float, msgspec.Meta(gt=0)] = 20.0
    message_mb_a_minute: Annotated[float, msgspec.Meta(gt=0)] = 20.0
    message_mb: Annotated[float, msgspec.Meta(gt=0)] = 1000.0
    cpu_s: Annotated[float, msgspec.Meta(gt=0)] = 24 * 3600.0
    memory_mb: Count = 4096
    processes: Count = 32
    threads: Count = 512
    open_files: Count = 512
    disk_mb: Count = 512
    output_mb: Count = 256
    strength: Literal["auto", "bubblewrap", "limits"] = "auto"


class Qualify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a team must reach to qualify."""

    top: int | None = None
    least_score: float | None = None


class TrackPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The recordings of a contest on one track, and the rules that it changes.

    calibration: labelled recordings of the same subjects, for submissions of 2026.
    """

    recordings: list[str] = []
    rules: dict[str, Any] = {}
    calibration: list[str] = []


class SubmissionPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one team's submission is run.

    path: its folder, .zip or .tar.gz, from the contest's folder; None: it is named when it is run. track:
    None where the contest has one only. interface, python, positions: as the options of `bci-decode`.
    """

    path: str | None = None
    track: str | None = None
    interface: str | None = None
    python: str | None = None
    positions: Literal["block", "continuous"] | None = None

    def options(self) -> dict[str, str]:
        """The options that are set, by their names."""
        named = {"interface": self.interface, "python": self.python, "positions": self.positions}
        return {name: value for name, value in named.items() if value is not None}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of contest.toml; one track may be written at the top level."""

    name: str
    track: str | None = None
    recordings: list[str] = []
    rules: dict[str, Any] = {}
    calibration: list[str] = []
    tracks: dict[str, TrackPlan] = {}
    pace: str = "lockstep"
    teams: list[str] = []
    results: Results = "sealed"
    limits: Limits = Limits()
    qualify: Qualify = Qualify()
    submissions: dict[str, SubmissionPlan] = {}


@dataclass(frozen=True)
class Contest:
    """A contest; folder: holds its file, keys and run logs."""

    name: str
    folder: Path
    tracks: dict[str, TrackPlan] = field(default_factory=dict)
    pace: str = "lockstep"
    teams: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    qualify: Qualify = field(default_factory=Qualify)
    results: Results = "signed"
    submissions: dict[str, SubmissionPlan] = field(default_factory=dict)

    @property
    def sealed(self) -> bool:
        """Whether teams' messages are encrypted; in an open contest everyone on the network can read them."""
        return self.results == "sealed"

    @cached_property
    def keys(self) -> Keys:
        return Keys(self.folder / "keys")

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def token(self, team: str) -> bytes | None:
        """A team's token; None for a team that is not on the contest's list, or whose token is revoked."""
        if (self.teams and team not in self.teams) or self.keys.token_state(team).revoked:
            return None
        return self.keys.token(team)

    def rules(self, track: str) -> dict[str, Any]:
        return self.tracks.get(track, TrackPlan()).rules


def load_contest(path: Path | None, name: str = "default") -> Contest:
    """Load a contest file or the one in a folder; None: an open contest in the user's state folder.

    Raises ContestError for a file that is absent or invalid.
    """
    if path is None:
        return Contest(checked_name(name, "contest"), state_dir() / "contests" / name)
    path = path / "contest.toml" if path.is_dir() else path
    try:
        raw = tomllib.loads(path.read_text())
        file = msgspec.convert(raw, _File)
    except FileNotFoundError as error:
        raise ContestError(f"no contest file at {path}; `bci-judge init` writes one") from error
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ContestError(f"contest file {path}: {error}") from error
    return _contest(file, path)


def _contest(file: _File, path: Path) -> Contest:
    plans = dict(file.tracks)
    if file.track is not None:
        plans[file.track] = TrackPlan(file.recordings, file.rules, file.calibration)
    elif file.recordings or file.rules:
        raise ContestError(
            f"contest file {path}: `recordings` and `rules` need a `track` beside them"
        )
    for track, plan in plans.items():
        _check_plan(track, plan, path)
    for team in (*file.teams, *file.submissions):
        checked_name(team, "team")
    for team, submission in file.submissions.items():
        _check_submission(team, submission, plans, path)
    return Contest(
        checked_name(file.name, "contest"),
        path.parent.resolve(),
        plans,
        file.pace,
        tuple(file.teams),
        file.limits,
        file.qualify,
        file.results,
        dict(file.submissions),
    )


def _check_submission(
    team: str, plan: SubmissionPlan, tracks: dict[str, TrackPlan], path: Path
) -> None:
    if plan.track is not None and plan.track not in (tracks or TRACKS):
        raise ContestError(
            f"contest file {path}: submissions.{team}: the contest has no track {plan.track!r}; it has "
            f"{', '.join(tracks or TRACKS)}"
        )
    if plan.track is None and plan.path is not None and len(tracks) != 1:
        raise ContestError(
            f"contest file {path}: submissions.{team} needs a `track`: the contest has "
            f"{', '.join(tracks) or 'none'}"
        )


def _check_plan(track: str, plan: TrackPlan, path: Path) -> None:
    if track not in TRACKS:
        raise ContestError(
            f"contest file {path}: no track {track!r}; there are {', '.join(TRACKS)}"
        )
    for rule in plan.rules:
        if rule not in TRACKS[track].rules:
            known = ", ".join(TRACKS[track].rules)
            raise ContestError(
                f"contest file {path}: {track} has no rule {rule!r}; it has: {known}"
            )
    try:
        TRACKS[track].under(plan.rules)
    except RuleError as error:
        raise ContestError(f"contest file {path}, rules of {track}: {error}") from error
