"""Writes docs/contest-file.md from the types of the contest file: `python scripts/contest_file_page.py`."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from bci_stream.contest.contest import (
    Award,
    ContestFile,
    Limits,
    Qualify,
    SubmissionPlan,
    TeamEntry,
    TrackPlan,
)
from bci_stream.contest.phases import Phase, PhaseTrack
from tracks.registry import TRACKS

PAGE = Path(__file__).parents[1] / "docs" / "contest-file.md"

HEAD = """\
# The contest file

This page is made from the code by `python scripts/contest_file_page.py`; a test checks that it is current.

`bci-judge init cup --track mi --track erp --team alice --team "bob=Alpha Waves"` writes `cup/contest.toml`,
the contest's keys and a file for each team. Edit the file before the contest; `bci-judge`, `bci-replay` and
`bci-decode` read it with `--contest cup`. A misspelt key or a value that is not allowed is refused with what
was probably meant.

    name = "cup"
    title = "脑机接口大赛"
    pace = "realtime"
    start = "go"
    teams = ["alice", "bob", "carol"]
    peers = ["10.0.0.5"]

    [team.bob]
    name = "Alpha Waves"

    [tracks.mi]
    recordings = ["sets/mi"]

    [tracks.erp]
    recordings = ["synthetic:erp?set=test"]
    teams = ["alice", "bob"]

    [limits]
    join_s = 120

    [qualify]
    top = 10

    [[awards]]
    name = "特等奖"
    prize = "15000"
    prize_above = 60.0

    [[awards]]
    name = "一等奖"
    places = 2

Teams that `bci-judge team add` puts on the list are not in this file: they are in `keys/teams.json`, which
judge and replay read again when it changes. All other settings are read when a command starts.
"""

TABLES: list[tuple[str, type[msgspec.Struct]]] = [
    ("Top level", ContestFile),
    ("[tracks.NAME]", TrackPlan),
    ("[team.ID]", TeamEntry),
    ("[limits]", Limits),
    ("[qualify]", Qualify),
    ("[[awards]]", Award),
    ("[submissions.TEAM]", SubmissionPlan),
    ("[[phases]]", Phase),
    ("[phases.tracks.NAME]", PhaseTrack),
]
OWN_TABLE = ("limits", "qualify")


def page() -> str:
    return "\n".join(
        [HEAD, *(line for title, kind in TABLES for line in table(title, kind)), *rules()]
    )


def table(title: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    yield f"## {title}\n\n{cleandoc(kind.__doc__ or '')}\n"
    yield "| setting | value | default | |\n|---|---|---|---|"
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        if kind is ContestFile and field.name in OWN_TABLE:
            continue
        about = (
            (field.type.extra_json_schema or {}) if isinstance(field.type, inspect.Metadata) else {}
        )
        default = "required" if field.required else f"`{toml(default_of(field))}`"
        yield f"| `{field.name}` | {value(field.type)} | {default} | {about.get('description', '')} |"
    yield ""


def default_of(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def value(kind: inspect.Type) -> str:
    """What is allowed, in words."""
    match kind:
        case inspect.Metadata():
            return value(kind.type)
        case inspect.UnionType():
            parts = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
            return " or ".join(dict.fromkeys(value(part) for part in parts))
        case inspect.LiteralType():
            return " or ".join(f'`"{name}"`' for name in kind.values)
        case inspect.IntType() | inspect.FloatType():
            word = "whole number" if isinstance(kind, inspect.IntType) else "number"
            bound = f", at least {kind.ge:g}" if kind.ge is not None else ""
            return f"{word}{bound or (f', above {kind.gt:g}' if kind.gt is not None else '')}"
        case inspect.ListType():
            return f"list of {value(kind.item_type)}s"
        case inspect.DictType():
            return f"table of {value(kind.value_type)}s"
        case inspect.StructType():
            return next(f"`{title}` table" for title, cls in TABLES if cls is kind.cls)
        case inspect.DateTimeType():
            return "date and time"
        case inspect.StrType():
            return "text"
    return "value"


def toml(given: Any) -> str:
    if given is None:
        return "none"
    if isinstance(given, str):
        return f'"{given}"'
    if isinstance(given, (list, tuple)):
        return "[" + ", ".join(toml(item) for item in given) + "]"
    return "{}" if given == {} else f"{given}".lower()


def rules() -> Iterator[str]:
    yield "## [tracks.NAME.rules]\n"
    yield "The rules of each track and their defaults; [tracks](tracks.md) explains them.\n"
    yield "| track | rule | default |\n|---|---|---|"
    for name in TRACKS:
        for rule, default in TRACKS[name].rules.items():
            yield f"| {name} | `{rule}` | `{toml('off' if default is None else default)}` |"


if __name__ == "__main__":
    PAGE.write_text(page() + "\n", encoding="utf-8")
