"""Which leads of a recording are sent, in which order, under which names."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead
from replay.model.options import SourceOptions
from replay.model.signal import Signal
from tracks.common.leads import OLD_NAMES
from tracks.track import Track


@dataclass(frozen=True)
class LeadPlan:
    """The leads that are sent, and the column of each; None for a missing lead, which is sent flat."""

    leads: tuple[Lead, ...]
    columns: tuple[int | None, ...]
    notes: tuple[str, ...] = ()

    def picker(self, count: int) -> "ColumnPicker | None":
        """Picks the columns that are sent out of `count` columns; None if all are sent in their order."""
        return None if self.columns == tuple(range(count)) else ColumnPicker(self.columns)

    def applied_to(self, signal: Signal, count: int) -> Signal:
        pick = self.picker(count)
        return signal if pick is None else OrderedSignal(signal, pick)


class ColumnPicker:
    """Picks columns of samples; missing ones are 0."""

    def __init__(self, columns: Sequence[int | None]) -> None:
        self._columns = np.array([c or 0 for c in columns], dtype=np.intp)
        self._flat = [k for k, c in enumerate(columns) if c is None]

    def __call__(self, samples: FloatArray) -> FloatArray:
        picked = samples.take(self._columns, axis=1)
        picked[:, self._flat] = 0
        return picked


class OrderedSignal:
    """Picked columns of another signal."""

    def __init__(self, signal: Signal, pick: ColumnPicker) -> None:
        self._signal, self._pick = signal, pick

    @property
    def n_samples(self) -> int:
        return self._signal.n_samples

    def read(self, start: int, stop: int) -> FloatArray:
        return self._pick(self._signal.read(start, stop))


def plan_leads(
    name: str, leads: tuple[Lead, ...], options: SourceOptions, track: Track | None
) -> LeadPlan:
    """Rename leads as asked; then select as asked, or else fit to the track."""
    leads = _renamed(name, leads, options.rename)
    if options.select:
        plan = _selected(name, leads, options.select)
    else:
        plan = _fitted(name, leads, track, options.missing) if track else _all(leads)
    names = [lead.name for lead in plan.leads]
    if doubled := sorted({each for each in names if names.count(each) > 1}):
        raise SourceError(f"{name} has two leads of one name: {', '.join(doubled)}; rename them")
    return plan


def _all(leads: tuple[Lead, ...], *notes: str) -> LeadPlan:
    return LeadPlan(leads, tuple(range(len(leads))), notes)


def _renamed(name: str, leads: tuple[Lead, ...], rename: Mapping[str, str]) -> tuple[Lead, ...]:
    unknown = set(rename) - {lead.name for lead in leads}
    if unknown:
        raise SourceError(
            f"{name} has no lead {sorted(unknown)[0]!r} to rename; it has {_list(leads)}"
        )
    return tuple(dataclasses.replace(lead, name=rename.get(lead.name, lead.name)) for lead in leads)


def _selected(name: str, leads: tuple[Lead, ...], select: tuple[str, ...]) -> LeadPlan:
    columns = {lead.name: column for column, lead in enumerate(leads)}
    by_place = {place(lead.name): column for column, lead in enumerate(leads)}
    chosen = [columns.get(wanted, by_place.get(place(wanted))) for wanted in select]
    lacking = [w for w, column in zip(select, chosen, strict=True) if column is None]
    if lacking:
        raise SourceError(f"{name} has no lead {lacking[0]!r} to select; it has {_list(leads)}")
    picked = tuple(column for column in chosen if column is not None)
    return LeadPlan(
        tuple(leads[column] for column in picked),
        picked,
        (f"{len(picked)} of {len(leads)} leads are sent, as selected",),
    )


def _fitted(name: str, leads: tuple[Lead, ...], track: Track, missing: str) -> LeadPlan:
    at = {place(lead.name): column for column, lead in reversed(list(enumerate(leads)))}
    found = {wanted: at.get(place(wanted)) for wanted in track.leads}
    lacking = [wanted for wanted, column in found.items() if column is None]
    if len(lacking) == len(found):
        return _all(
            leads,
            f"none of {track.name}'s leads has its name here: all are sent as they are. --rename OLD=NEW "
            "names them; so does an amplifier's montage=",
        )
    if lacking and missing == "refuse":
        raise SourceError(f"{name} lacks {len(lacking)} of {track.name}'s leads: {_some(lacking)}")
    sent = {w: c for w, c in found.items() if c is not None or missing == "zero"}
    plan = LeadPlan(
        tuple(
            _as_track_has_it(w, leads[c] if c is not None else None, track) for w, c in sent.items()
        ),
        tuple(sent.values()),
    )
    return dataclasses.replace(plan, notes=_fit_notes(leads, plan, lacking, track, missing))


def _as_track_has_it(name: str, lead: Lead | None, track: Track) -> Lead:
    kind = track.lead_kinds.get(name, lead.kind if lead else "EEG")
    return Lead(name, kind, lead.unit, lead.position) if lead else Lead(name, kind)


def _fit_notes(
    leads: tuple[Lead, ...], plan: LeadPlan, lacking: list[str], track: Track, missing: str
) -> tuple[str, ...]:
    notes = []
    kept = [column for column in plan.columns if column is not None]
    extra = [lead.name for column, lead in enumerate(leads) if column not in kept]
    renamed = [
        f"{leads[c].name}={lead.name}"
        for c, lead in zip(plan.columns, plan.leads, strict=True)
        if c is not None and leads[c].name != lead.name
    ]
    if renamed:
        notes.append(f"leads are renamed to {track.name}'s: {_some(renamed)}")
    if kept != sorted(kept):
        notes.append(f"leads are put into {track.name}'s order")
    if extra:
        notes.append(
            f"{len(extra)} leads that {track.name} does not have are left out: {_some(extra)}"
        )
    if lacking:
        fate = "sent flat (0)" if missing == "zero" else "not sent (?missing=zero sends them flat)"
        notes.append(
            f"{len(lacking)} of {track.name}'s leads are missing, {fate}: {_some(lacking)}"
        )
    return tuple(notes)


def place(name: str) -> str:
    """The 10-20 name of a lead in capitals, for any spelling: `Fc5.`, `EEG T3-Ref`."""
    upper = name.upper().strip(" .")
    upper = upper.removeprefix("EEG ").removesuffix("-REF").strip(" .")
    return OLD_NAMES.get(upper, upper)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def _list(leads: tuple[Lead, ...]) -> str:
    return _some([lead.name for lead in leads])
