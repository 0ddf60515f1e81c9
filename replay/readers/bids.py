"""BIDS (Brain Imaging Data Structure): names of recordings, and tables beside them."""

import csv
import dataclasses
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.model.signal import Content
from replay.model.units import kind_called
from replay.readers.guard import reading

_SUBJECT = re.compile(r"(?:^|_)sub-([A-Za-z0-9+]+)(?:_|$)")
_SUFFIX = re.compile(r"_(?:eeg|ieeg)$")


def subject_of(stem: str) -> str | None:
    """The subject in a name such as `sub-01_task-x_eeg`; None if there is none."""
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


_METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001}
_HEAD_FRAMES = ("CapTrak", "ElektaNeuromag")
_MARKS = "AnatomicalLandmarkCoordinate"
_LANDMARKS = ("NAS", "LPA", "RPA")
_REACH_M = 1.0

Places = dict[str, tuple[float, float, float]]


def with_places(content: Content, path: Path) -> Content:
    """The content with lead positions from the electrode tables beside its file."""
    tables = _beside(path, "_electrodes.tsv") if is_run(path) else []
    if not tables:
        return content
    notes = []
    for table in tables:
        places, note = _read(table)
        notes.append(note)
        if places:
            return _placed(content, places, note)
    return dataclasses.replace(content, notes=(*content.notes, *notes))


def _placed(content: Content, places: Places, note: str) -> Content:
    leads = tuple(
        dataclasses.replace(lead, position=places.get(lead.name, lead.position))
        for lead in content.leads
    )
    count = sum(lead.name in places for lead in leads)
    note = f"{count} of {len(leads)} lead positions are {note}"
    return dataclasses.replace(content, leads=leads, notes=(*content.notes, note))


def _beside(path: Path, ending: str) -> list[Path]:
    """Tables that apply to this run: all entities in their names, except space, are the run's."""
    own = entities_of(path.stem)
    return [
        table
        for table in sorted(path.parent.glob(f"*{ending}"))
        if {k: v for k, v in entities_of(table.stem).items() if k != "space"}.items() <= own.items()
    ]


def _read(table: Path) -> tuple[Places, str]:
    """Positions of leads in the head frame, and a note about them."""
    system = _system_of(table)
    if system is None:
        return {}, f"{table.name} is left out: no coordsystem.json states its coordinate system"
    with reading(str(system), "BIDS coordinate system"):
        stated = json.loads(system.read_text(encoding="utf-8-sig"))
        frame, unit = _stated(stated, "CoordinateSystem"), _stated(stated, "CoordinateUnits")
        to_head = _to_head(stated, frame, unit)
    if to_head is None:
        return {}, (
            f"{table.name} is left out: {frame or 'no system'} in {unit or 'no unit'} can't be "
            "transformed to the head without the landmarks NAS, LPA and RPA"
        )
    with reading(str(table), "BIDS electrodes table"), table.open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
        found = {row["name"]: _place(row) * _METRES[unit] for row in rows}
    places = {n: _moved(p, to_head) for n, p in found.items() if np.isfinite(p).all()}
    if any(abs(axis) > _REACH_M for place in places.values() for axis in place):
        return {}, f"{table.name} is left out: in {unit}, its leads are metres away from the head"
    return places, f"from {table.name} ({frame}, {unit})"


def _system_of(table: Path) -> Path | None:
    own = entities_of(table.stem)
    found = _beside(table, "_coordsystem.json")
    same = [each for each in found if entities_of(each.stem).get("space") == own.get("space")]
    return same[-1] if same else None


def _stated(system: Mapping[str, Any], key: str) -> str:
    """`EEGCoordinateUnits` or `iEEGCoordinateUnits`."""
    return str(system.get(f"EEG{key}") or system.get(f"iEEG{key}") or "")


def _to_head(system: Mapping[str, Any], frame: str, unit: str) -> NDArray[np.float64] | None:
    """(4, 4) transform from metres in the file's system to the head frame; None if unknown."""
    if unit not in _METRES:
        return None
    points = _landmarks(system, frame)
    if points is None:
        return np.eye(4) if frame in _HEAD_FRAMES else None
    from mne.transforms import get_ras_to_neuromag_trans

    return np.asarray(get_ras_to_neuromag_trans(*points), dtype=np.float64)


def _landmarks(system: Mapping[str, Any], frame: str) -> list[NDArray[np.float64]] | None:
    """Nasion, left and right preauricular points in metres, if all are given in this system."""
    marks = system.get(f"{_MARKS}s") or {}
    metres = _METRES.get(str(system.get(f"{_MARKS}Units")))
    ours = system.get(f"{_MARKS}System") == frame
    if not ours or metres is None or not all(mark in marks for mark in _LANDMARKS):
        return None
    return [np.asarray(marks[mark], dtype=np.float64) * metres for mark in _LANDMARKS]


def _moved(place: NDArray[np.float64], to_head: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = (to_head[:3, :3] @ place + to_head[:3, 3]).tolist()
    return x, y, z


def _place(row: Mapping[str, str]) -> NDArray[np.float64]:
    values = [row[axis] for axis in ("x", "y", "z")]
    return np.array([math.nan if value in ("", "n/a") else float(value) for value in values])
