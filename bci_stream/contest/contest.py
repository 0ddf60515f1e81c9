"""The contest file, contest.toml. Every setting has a default, so a demo needs no file."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bci_stream.contest.checks import (
    check_finite,
    check_keys,
    check_title,
    describe_invalid,
    hashed_url,
    suggest,
)
from bci_stream.contest.keys import Keys, Results
from bci_stream.contest.phases import Phase, check_phases
from bci_stream.contest.start import StartPolicy, parse_pace, parse_start
from bci_stream.errors import ContestError, RuleError, SourceError
from bci_stream.files import state_dir
from bci_stream.wire.names import checked_name
from tracks.registry import TRACKS

Count = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]


def _about(text: str) -> Meta:
    """The description of a setting; docs/contest-file.md is made from these."""
    return Meta(description=text)


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of a run, and of each submission that runs on the organiser's machine."""

    compute_factor: Annotated[
        NotNegative,
        _about("Lockstep: compute time of a run, as a multiple of the duration of its data."),
    ] = 1.0
    compute_extra_s: Annotated[NotNegative, _about("Added to that, for start-up.")] = 60.0
    silence_s: Annotated[Positive, _about("Lockstep: compute time for one packet.")] = 60.0
    join_s: Annotated[
        NotNegative,
        _about(
            'How long a run with `start = "ready"` waits, from the first team that is ready, for those that '
            "are absent."
        ),
    ] = 60.0
    grace_packets: Annotated[
        NotNegative,
        _about(
            "Real time: how many packets late a report may arrive and still count as made before them."
        ),
    ] = 1.0
    return_s: Annotated[
        NotNegative,
        _about(
            "How long a team, or a replay, whose stream was lost may take to come back into the run."
        ),
    ] = 10.0
    outage_s: Annotated[
        Positive, _about("A fault of replay, judge or their link that is longer is an outage.")
    ] = 0.25
    reports_a_packet: Annotated[
        Positive,
        _about(
            "Reports that a team may send for each packet, and 100 more; above that it is disqualified."
        ),
    ] = 20.0
    message_mb_a_minute: Annotated[
        Positive, _about("Megabytes of messages that a team may send in a minute of data.")
    ] = 20.0
    message_mb: Annotated[Positive, _about("The same, in a run.")] = 1000.0
    cpu_s: Annotated[
        Positive, _about("A submission: processor time of all its processes together.")
    ] = 24 * 3600.0
    memory_mb: Annotated[Count, _about("A submission: memory of all its processes.")] = 4096
    processes: Annotated[Count, _about("A submission: processes at one moment.")] = 32
    threads: Annotated[Count, _about("A submission: threads at one moment.")] = 512
    open_files: Annotated[Count, _about("A submission: open files of each process.")] = 512
    disk_mb: Annotated[Count, _about("A submission: what it may write.")] = 512
    output_mb: Annotated[Count, _about("A submission: what it may print.")] = 256
    strength: Annotated[
        Literal["auto", "bubblewrap", "limits"],
        _about("The least sandbox of a submission; `auto`: the strongest that this machine has."),
    ] = "auto"


class Qualify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a team must reach to qualify; both limits hold. The line is drawn on the leaderboard."""

    top: Annotated[Count | None, _about("The first so many teams of each track.")] = None
    least_score: Annotated[float | None, _about("At least this score.")] = None


class TrackPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The recordings of a contest on one track, its teams, and the rules that it changes."""

    recordings: Annotated[
        list[str],
        _about(
            "What `bci-replay start --contest` and `bci-judge run` play: files, folders or URIs; paths are "
            "relative to the contest file. A season and `bci-judge run --engine` also take "
            "`URL#sha256=DIGITS`, docs/season.md."
        ),
    ] = []
    teams: Annotated[
        list[str] | None,
        _about("The teams of this track, instead of those of the whole contest."),
    ] = None
    start: Annotated[str | None, _about("Instead of the contest's `start`.")] = None
    rules: Annotated[
        dict[str, Any], _about("Rules that differ from the track's own; see below.")
    ] = {}
    calibration: Annotated[
        list[str], _about("Labelled recordings of the same subjects, for submissions of 2026.")
    ] = []
    split: Annotated[
        Literal["run", "subject"],
        _about(
            'A season: `"subject"` if the subjects are independent: each entry of `recordings` is a run '
            "of its own, and they may run at the same time."
        ),
    ] = "run"
    downloads: Annotated[
        list[str],
        _about(
            "A season: files and folders that teams may download; of a folder that `bci-replay prepare` "
            "made, the training set."
        ),
    ] = []


class SubmissionPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one team's submission is run by `bci-judge run`."""

    path: Annotated[
        str | None,
        _about(
            "Its folder, .zip or .tar.gz, from the contest's folder; without it, it is named when it is run."
        ),
    ] = None
    track: Annotated[str | None, _about("Needed if the contest has several tracks.")] = None
    interface: Annotated[str | None, _about("As `--interface` of `bci-decode`.")] = None
    python: Annotated[str | None, _about("As `--python` of `bci-decode`.")] = None
    positions: Annotated[
        Literal["block", "continuous"] | None, _about("As `--positions` of `bci-decode`.")
    ] = None

    def options(self) -> dict[str, str]:
        """The options that are set, by their names."""
        named = {"interface": self.interface, "python": self.python, "positions": self.positions}
        return {name: value for name, value in named.items() if value is not None}


class TeamEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is shown of a team; its id stays what it is in `teams`."""

    name: Annotated[
        str, _about("Display name: any script, with blanks. Shown instead of the id.")
    ] = ""


class Award(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An award by rank. Awards are given in the order of the file, the first one to the best teams."""

    name: Annotated[str, _about("As it is shown.")]
    places: Annotated[Count, _about("How many teams of a track get it.")] = 1
    least_score: Annotated[float | None, _about("A team below this score does not get it.")] = None
    prize: Annotated[str, _about("What comes with it, in words.")] = ""
    prize_above: Annotated[
        float | None, _about("The prize is for teams above this score only.")
    ] = None
    tracks: Annotated[list[str], _about("The tracks that give it; empty: all.")] = []


class ContestFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of contest.toml. One track may be written at the top level, as `track = "mi"`."""

    name: Annotated[
        str, _about("1 to 64 letters, digits, `_`, `.` or `-`; it is in the names of all streams.")
    ]
    title: Annotated[str, _about("Display name of the contest: any script, with blanks.")] = ""
    pace: Annotated[
        str | int | float,
        _about(
            '`"realtime"`, `"lockstep"`, or a factor such as 2.0. `bci-replay start --contest` plays at this '
            "pace unless `--pace` is given; `bci-judge run` always plays in lockstep."
        ),
    ] = "realtime"
    start: Annotated[
        str,
        _about(
            'When a run begins: `"ready"`, once all its teams are ready, and `limits.join_s` after the first '
            'one without those that are absent; `"go"`, when the operator gives go; `"at TIME"`, such as '
            '`"at 2026-08-20 14:00+08:00"`, with the teams that are ready then.'
        ),
    ] = "ready"
    teams: Annotated[
        list[str],
        _about(
            "The ids of the teams that may take part; empty: anyone who has a token. `bci-judge team add` "
            "adds others while a judge runs."
        ),
    ] = []
    team: Annotated[dict[str, TeamEntry], _about("Display names, by team.")] = {}
    peers: Annotated[
        list[str],
        _about(
            "Hosts of replay and judge where multicast does not reach: names or addresses; they are written "
            "into the teams' files."
        ),
    ] = []
    results: Annotated[
        Results,
        _about(
            '`"sealed"`: the teams\' messages are encrypted. `"signed"`: an open contest, where everyone on '
            "the network can read them."
        ),
    ] = "sealed"
    track: Annotated[
        str | None, _about("The only track, if it is not written as `[tracks.NAME]`.")
    ] = None
    recordings: Annotated[list[str], _about("Of that track.")] = []
    rules: Annotated[dict[str, Any], _about("Of that track.")] = {}
    calibration: Annotated[list[str], _about("Of that track.")] = []
    tracks: Annotated[dict[str, TrackPlan], _about("The tracks, by name.")] = {}
    limits: Limits = Limits()
    qualify: Qualify = Qualify()
    awards: Annotated[list[Award], _about("The awards, the highest one first.")] = []
    phases: Annotated[list[Phase], _about("The phases of a season; docs/season.md.")] = []
    registration: Annotated[
        Literal["open", "closed"],
        _about('A season: `"open"` lets teams apply on the page; the organiser approves each.'),
    ] = "closed"
    submissions: Annotated[
        dict[str, SubmissionPlan], _about("Submissions that `bci-judge run` plays, by team.")
    ] = {}


@dataclass(frozen=True)
class Contest:
    """A contest; folder: holds its file, keys and run logs.

    teams: those that the file lists for every track. names: display names by team. `bci-judge team add` adds
    teams to those of the file: `team_list`, `teams_of` and `display_name` have them all.
    """

    name: str
    folder: Path
    tracks: dict[str, TrackPlan] = field(default_factory=dict)
    pace: str = "realtime"
    teams: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    qualify: Qualify = field(default_factory=Qualify)
    results: Results = "signed"
    start: str = "ready"
    title: str = ""
    names: dict[str, str] = field(default_factory=dict)
    peers: tuple[str, ...] = ()
    awards: tuple[Award, ...] = ()
    phases: tuple[Phase, ...] = ()
    submissions: dict[str, SubmissionPlan] = field(default_factory=dict)
    registration: Literal["open", "closed"] = "closed"

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
        state = self.keys.token_state(team)
        is_listed = team in self._listed or state.added or not self.team_list()
        return self.keys.token(team) if is_listed and not state.revoked else None

    @cached_property
    def _listed(self) -> tuple[str, ...]:
        """The teams that the file lists, for every track or for one."""
        by_track = (team for plan in self.tracks.values() for team in plan.teams or ())
        return _each_once((*self.teams, *by_track))

    def team_list(self) -> tuple[str, ...]:
        """All teams of the contest; empty if anyone who has a token may take part."""
        return _each_once((*self._listed, *self.keys.added_teams()))

    def teams_of(self, track: str) -> tuple[str, ...]:
        """The teams of a track; empty if anyone who has a token may take part."""
        plan = self.tracks.get(track, TrackPlan())
        listed = self.teams if plan.teams is None else plan.teams
        added = [team for team, on in self.keys.added_teams().items() if not on or track in on]
        return _each_once((*listed, *added)) or self.team_list()

    def takes(self, team: str, track: str) -> bool:
        """Whether a team may take part in a track."""
        teams = self.teams_of(track)
        return not teams or team in teams

    def display_name(self, team: str) -> str:
        """The name that is shown; empty if the team has its id only."""
        return self.names.get(team) or self.keys.token_state(team).name

    def start_policy(self, track: str) -> StartPolicy:
        start = self.tracks.get(track, TrackPlan()).start
        return parse_start(self.start if start is None else start, self.limits.join_s)

    def recordings(self, track: str) -> list[str]:
        """The recordings of a track; a path that lies beside the contest file is made absolute."""
        return [
            _beside(text, self.folder) for text in self.tracks.get(track, TrackPlan()).recordings
        ]

    def rules(self, track: str) -> dict[str, Any]:
        return self.tracks.get(track, TrackPlan()).rules


def _each_once(teams: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(teams))


def _beside(text: str, folder: Path) -> str:
    path, mark, options = text.partition("?")
    return f"{folder / path}{mark}{options}" if (folder / path).exists() else text


def load_contest(path: Path | None, name: str = "default") -> Contest:
    """Load a contest file or the one in a folder; None: an open contest in the user's state folder.

    Raises ContestError for a file that is absent or invalid.
    """
    if path is None:
        return Contest(checked_name(name, "contest"), state_dir() / "contests" / name)
    path = path / "contest.toml" if path.is_dir() else path
    try:
        return _contest(_read(path), path)
    except (ContestError, RuleError) as error:
        raise ContestError(f"contest file {path}: {error}") from error


def _read(path: Path) -> ContestFile:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ContestError("there is none; `bci-judge init` writes one") from error
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ContestError(str(error)) from error
    check_keys(raw, ContestFile)
    check_finite(raw)
    try:
        return msgspec.convert(raw, ContestFile)
    except msgspec.ValidationError as error:
        raise ContestError(describe_invalid(error, raw)) from error


def _contest(file: ContestFile, path: Path) -> Contest:
    plans = dict(file.tracks)
    if file.track is not None:
        if file.track in plans:
            raise ContestError(
                f"track = {file.track!r} and [tracks.{file.track}]: write one of them"
            )
        plans[file.track] = TrackPlan(
            file.recordings, rules=file.rules, calibration=file.calibration
        )
    elif file.recordings or file.rules:
        raise ContestError("`recordings` and `rules` need a `track` beside them")
    for track, plan in plans.items():
        _check_plan(track, plan)
    check_phases(file.phases, list(plans), "phases")
    for phase in file.phases:
        for track, changed in phase.tracks.items():
            rules = plans[track].rules | changed.rules
            _check_plan(track, TrackPlan(changed.recordings, rules=rules))
    _check_teams(file.teams, "teams")
    _check_teams(list(file.submissions), "submissions")
    for team, submission in file.submissions.items():
        _check_submission(team, submission, plans)
    parse_start(file.start)
    for award in file.awards:
        check_title(award.name, "awards: name")
        _check_track_names(award.tracks, f"award {award.name!r}: tracks")
    for peer in file.peers:
        _check_peer(peer)
    contest = Contest(
        checked_name(file.name, "name ="),
        path.parent.resolve(),
        plans,
        _pace(file.pace),
        tuple(file.teams),
        file.limits,
        file.qualify,
        file.results,
        file.start,
        check_title(file.title, "title") if file.title else "",
        {team: check_title(e.name, f"team.{team}.name") for team, e in file.team.items() if e.name},
        tuple(file.peers),
        tuple(file.awards),
        tuple(file.phases),
        dict(file.submissions),
        file.registration,
    )
    _check_described(file, contest)
    return contest


def _check_submission(team: str, plan: SubmissionPlan, tracks: dict[str, TrackPlan]) -> None:
    if plan.track is not None and plan.track not in (tracks or TRACKS):
        raise ContestError(
            f"submissions.{team}: the contest has no track {plan.track!r}; it has "
            f"{', '.join(tracks or TRACKS)}"
        )
    if plan.track is None and plan.path is not None and len(tracks) != 1:
        raise ContestError(
            f"submissions.{team} needs a `track`: the contest has {', '.join(tracks) or 'none'}"
        )


def _pace(given: str | float) -> str:
    text = given if isinstance(given, str) else f"{given:g}"
    try:
        return str(parse_pace(text))
    except SourceError as error:
        near = suggest(text, ("realtime", "lockstep"))
        raise ContestError(
            f'pace = {given!r}: "lockstep", "realtime" or a factor above 0, such as 2.0, is allowed{near}'
        ) from error


def _check_plan(track: str, plan: TrackPlan) -> None:
    _check_track_names([track], "tracks")
    rules = TRACKS[track].rules
    for rule in plan.rules:
        if rule not in rules:
            raise ContestError(
                f"{track} has no rule {rule!r}; it has: {', '.join(rules)}{suggest(rule, rules)}"
            )
    try:
        TRACKS[track].under(plan.rules)
    except RuleError as error:
        raise ContestError(f"rules of {track}: {error}") from error
    for recording in (*plan.recordings, *plan.calibration):
        hashed_url(recording)
    _check_teams(plan.teams or (), f"tracks.{track}.teams")
    if plan.start is not None:
        parse_start(plan.start)


def _check_track_names(given: Iterable[str], where: str) -> None:
    for track in given:
        if track not in TRACKS:
            raise ContestError(
                f"{where}: no track {track!r}; there are {', '.join(TRACKS)}{suggest(track, TRACKS)}"
            )


def _check_teams(teams: Iterable[str], where: str) -> None:
    for team, count in Counter(teams).items():
        checked_name(team, f"{where}: team")
        if count > 1:
            raise ContestError(f"{where}: team {team!r} is listed {count} times; once is enough")


def _check_described(file: ContestFile, contest: Contest) -> None:
    """Raise ContestError for a [team.NAME] whose team is not on the list."""
    listed = contest.team_list()
    for team in file.team:
        checked_name(team, "[team]: team")
        if listed and team not in listed:
            raise ContestError(
                f"[team.{team}]: team {team!r} is not in `teams`{suggest(team, listed)}"
            )


_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+(%[A-Za-z0-9.-]+)?")


def _check_peer(peer: str) -> None:
    if not _HOST.fullmatch(peer) or len(peer) > 253:
        raise ContestError(
            f"peers: {peer!r} is no host: a name such as judge.local or an address such as 10.0.0.5 or "
            "fe80::1 is expected, without a port"
        )
