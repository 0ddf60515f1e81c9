"""BIDS: what the names and the tables of the Brain Imaging Data Structure say about a recording."""

import csv
import re
from pathlib import Path

from replay.readers.guard import reading
from replay.readers.lead_kinds import kind_called

_SUBJECT = re.compile(r"(?:^|_)sub-([A-Za-z0-9+]+)(?:_|$)")
_SUFFIX = re.compile(r"_(?:eeg|ieeg)$")


def subject_of(stem: str) -> str | None:
    """`sub-01_task-x_eeg` is subject 01's; None where a name does not say."""
    found = _SUBJECT.search(stem)
    return found.group(1) if found else None


def is_run(path: Path) -> bool:
    return subject_of(path.stem) is not None and bool(_SUFFIX.search(path.stem))


def kinds_beside(path: Path) -> dict[str, str]:
    """Lead name to kind, from the `*_channels.tsv` beside a recording, if there is one."""
    table = path.with_name(_SUFFIX.sub("", path.stem) + "_channels.tsv")
    if not is_run(path) or not table.is_file():
        return {}
    with reading(str(table), "BIDS channels table"), table.open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
        return {row["name"].strip(): kind_called(row["type"].strip()) for row in rows}


def entities_of(stem: str) -> dict[str, str]:
    """`sub-01_task-x_eeg` names {sub: 01, task: x}."""
    return dict(part.split("-", 1) for part in stem.split("_") if "-" in part)


def series_of(path: Path) -> tuple[str, str, str]:
    """(subject, session, task): runs that agree in these continue each other."""
    parts = entities_of(path.stem)
    return parts.get("sub", ""), parts.get("ses", ""), parts.get("task", "")
