"""`bci-judge init`: writes a contest file with all defaults, and the keys."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bci_stream.contest.checks import check_title
from bci_stream.contest.contest import Limits, load_contest
from bci_stream.contest.start import parse_pace
from bci_stream.contest.teams import write_team_file
from bci_stream.errors import ContestError
from bci_stream.wire.names import checked_name
from tracks.registry import TRACKS

TEMPLATE = """\
# A contest: its teams, recordings, rules and limits. Everything but the name has a default.
# Every setting: docs/contest-file.md
name = "{name}"
pace = "{pace}"        # or "lockstep", or a factor such as 2.0
start = "ready"          # or "go" (by the operator), or "at 2026-08-20 14:00+08:00"
teams = [{teams}]        # empty: anyone who has a token
results = "sealed"       # or "signed": an open contest, where everyone on the network can read them
{named}{tracks}
[limits]
{limits}

[qualify]
# top = 10
# least_score = 60.0

# [[awards]]             # the highest one first
# name = "一等奖"
# places = 2
# least_score = 60.0
"""

TRACK = """
[tracks.{track}]
recordings = ["synthetic:{track}?set=test"]
# teams = []             # the teams of this track, if not all take part

[tracks.{track}.rules]   # the decided defaults; see docs/tracks.md
{rules}
"""


def write_contest(
    folder: Path,
    name: str,
    tracks: Sequence[str],
    teams: Sequence[str],
    pace: str = "realtime",
) -> Iterator[str]:
    """Write the file and the keys; yields a line on each file. Raises ContestError if there is one.

    teams: ids, or `ID=DISPLAY NAME`.
    """
    path = folder / "contest.toml"
    if path.exists():
        raise ContestError(
            f"{path} exists already: edit it, add teams with `bci-judge team add`, or choose another folder"
        )
    given = [_named(team) for team in teams]
    _check_once([team for team, _ in given], "--team")
    _check_once(tracks, "--track")
    text = _contest_text(checked_name(name, "contest"), tracks, given, pace)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    contest = load_contest(path)
    contest.keys.contest_key()
    yield f"contest file: {path}"
    yield f"contest key (the organiser's alone): {contest.folder / 'keys' / 'contest.key'}"
    for team, _ in given:
        yield write_team_file(contest, team)


def _named(text: str) -> tuple[str, str]:
    """(id, display name) of ID or ID=DISPLAY NAME."""
    team, _, title = text.partition("=")
    checked_name(team, "team")
    return team, check_title(title, f"--team {team}") if title else ""


def _check_once(given: Sequence[str], option: str) -> None:
    twice = [name for name, count in Counter(given).items() if count > 1]
    if twice:
        raise ContestError(f"{option} {twice[0]} was given twice; once is enough")


def _contest_text(
    name: str, tracks: Sequence[str], teams: Sequence[tuple[str, str]], pace: str
) -> str:
    named = "".join(
        f"\n[team.{team}]\nname = {json.dumps(title, ensure_ascii=False)}\n"
        for team, title in teams
        if title
    )
    return TEMPLATE.format(
        name=name,
        pace=parse_pace(pace),
        teams=", ".join(f'"{team}"' for team, _ in teams),
        named=named,
        tracks="".join(TRACK.format(track=track, rules=_rules(track)) for track in tracks),
        limits="\n".join(
            f"{field} = {_toml(getattr(Limits(), field))}" for field in Limits.__struct_fields__
        ),
    )


def _rules(track: str) -> str:
    rules = TRACKS[track].rules
    return "\n".join(f"# {rule} = {_toml(value)}" for rule, value in rules.items())


def _toml(value: object) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if value is None:
        return '"off"'
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
