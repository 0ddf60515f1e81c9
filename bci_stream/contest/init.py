"""`bci-judge init`: writes a contest file with all defaults, and the keys."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bci_stream.contest.contest import Limits, load_contest
from bci_stream.errors import ContestError
from bci_stream.wire.names import checked_name
from tracks.registry import TRACKS

TEMPLATE = """\
# A contest: its teams, recordings, rules and limits. Everything but the name has a default.
name = "{name}"
pace = "lockstep"        # or "realtime", or a factor
teams = [{teams}]        # empty: anyone who has a token
results = "sealed"       # or "signed": an open contest, where everyone on the network can read them

[tracks.{track}]
recordings = ["synthetic:{track}?set=test"]

[tracks.{track}.rules]   # the decided defaults; see docs/tracks.md
{rules}

[limits]
{limits}

[qualify]
# top = 10
# least_score = 60.0
"""


def write_contest(folder: Path, name: str, track: str, teams: Sequence[str]) -> Iterator[str]:
    """Write the file and the keys; yields a line on each file. Raises ContestError if there is one."""
    path = folder / "contest.toml"
    if path.exists():
        raise ContestError(f"{path} exists already: edit it, or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for team in teams:
        checked_name(team, "team")
    text = TEMPLATE.format(
        name=checked_name(name, "contest"),
        track=track,
        teams=", ".join(f'"{team}"' for team in teams),
        rules="\n".join(
            f"# {rule} = {_toml(value)}" for rule, value in TRACKS[track].rules.items()
        ),
        limits="\n".join(
            f"{field} = {_toml(getattr(Limits(), field))}" for field in Limits.__struct_fields__
        ),
    )
    path.write_text(text)
    contest = load_contest(path)
    contest.keys.contest_key()
    yield f"contest file: {path}"
    yield f"contest key (the organiser's alone): {contest.folder / 'keys' / 'contest.key'}"
    for team in teams:
        path = contest.keys.team_file(team, contest.name, contest.results)
        yield f"file of team {team}, for that team alone: {path}"


def _toml(value: object) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if value is None:
        return '"off"'
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
