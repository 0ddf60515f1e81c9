"""Inspection of a recording: its properties, and whether it fits each track."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import Lead, Triggers
from replay.model.options import SourceOptions
from replay.model.source import RawPacket, Session, Source
from replay.sources import open_source
from replay.transform.leads import place, plan_leads
from tracks.common.truth import place_in, read_truth
from tracks.errors import RuleError
from tracks.registry import TRACKS, available_tracks
from tracks.track import Track

SCAN_S = 4.0


@dataclass(frozen=True)
class TrackFit:
    """Whether a recording fits one track.

    breaks: why it does not. adapted: what would be changed. warnings: deviations from the rules of a
    recording that can be played and judged.
    """

    track: str
    breaks: tuple[str, ...]
    adapted: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.breaks


@dataclass(frozen=True)
class SessionFacts:
    """Properties of one subject's recording.

    events: count by code. flat: leads that never change. bad: number of samples that are not finite, by lead.
    ranges: lowest and highest value, by unit.
    """

    subject: str
    rate: float
    n_samples: int
    leads: tuple[Lead, ...]
    block_samples: tuple[int, ...]
    events: Mapping[int, int]
    flat: tuple[str, ...]
    bad: Mapping[str, int]
    ranges: Mapping[str, tuple[float, float]]
    notes: tuple[str, ...]
    fits: tuple[TrackFit, ...]

    @property
    def duration_s(self) -> float:
        return self.n_samples / self.rate


@dataclass(frozen=True)
class Inspection:
    """The sessions of a source. track: the one they were compared with; None for all tracks."""

    uri: str
    track: str | None
    sessions: tuple[SessionFacts, ...]


def inspect_uri(uri: str, options: SourceOptions, track: str | None = None) -> Inspection:
    """Inspect a source as it is: samples that are not finite are counted, not refused."""
    source = open_source(uri, dataclasses.replace(options, nan="keep", as_is=True))
    try:
        return inspect_source(source, track or options.track, _keeps_nan(uri, options))
    finally:
        source.close()


def _keeps_nan(uri: str, options: SourceOptions) -> bool:
    """Whether ?nan=keep is given, so that samples that are not finite do not break a track."""
    return options.nan == "keep" or ("nan", "keep") in parse_qsl(uri.partition("?")[2])


def inspect_source(source: Source, track: str | None = None, keeps_nan: bool = False) -> Inspection:
    """Read all of a source and describe it."""
    if source.live:
        raise SourceError(
            f"{source.uri} is live: only a recording can be inspected; record it first"
        )
    asked = track or source.track
    tracks = [TRACKS[asked]] if asked and asked in TRACKS else available_tracks()
    facts = tuple(_facts(session, tracks, keeps_nan) for session in source.sessions())
    return Inspection(source.uri, asked, facts)


def _facts(session: Session, tracks: Sequence[Track], keeps_nan: bool) -> SessionFacts:
    blocks = session.block_triggers() or ()
    scan = _scan(session)
    names = [lead.name for lead in session.leads]
    refused = {} if keeps_nan else scan.first_bad
    return SessionFacts(
        subject=session.subject,
        rate=session.rate,
        n_samples=session.n_samples or 0,
        leads=session.leads,
        block_samples=tuple(n_samples for n_samples, _ in blocks),
        events=dict(sorted(Counter(code for _, own in blocks for _, code in own).items())),
        flat=tuple(
            n for n, low, high in zip(names, scan.low, scan.high, strict=True) if low == high
        ),
        bad={n: int(count) for n, count in zip(names, scan.bad, strict=True) if count},
        ranges=scan.ranges([lead.unit for lead in session.leads]),
        notes=session.notes,
        fits=tuple(_fit(session, blocks, track, refused) for track in tracks),
    )


class _Scan:
    """Range of each lead, number of samples that are not finite, and block and sample of the first."""

    def __init__(self, leads: int) -> None:
        self.low, self.high = np.full(leads, np.inf), np.full(leads, -np.inf)
        self.bad = np.zeros(leads, dtype=np.int64)
        self.first_bad: dict[int, tuple[int, int]] = {}

    def add(self, packet: RawPacket) -> None:
        finite = np.isfinite(packet.samples)
        bad = (~finite).sum(axis=0)
        for lead in np.flatnonzero(bad).tolist():
            first = packet.start + int(np.argmin(finite[:, lead]))
            self.first_bad.setdefault(lead, (packet.block, first))
        self.bad += bad
        self.low = np.minimum(self.low, np.where(finite, packet.samples, np.inf).min(axis=0))
        self.high = np.maximum(self.high, np.where(finite, packet.samples, -np.inf).max(axis=0))

    def ranges(self, units: Sequence[str]) -> dict[str, tuple[float, float]]:
        of_unit = {unit: np.array([own == unit for own in units]) for unit in dict.fromkeys(units)}
        return {
            unit: (float(self.low[leads].min()), float(self.high[leads].max()))
            for unit, leads in of_unit.items()
        }


def _scan(session: Session) -> _Scan:
    scan = _Scan(len(session.leads))
    for packet in session.packets(max(1, round(SCAN_S * session.rate))):
        scan.add(packet)
    return scan


def _fit(
    session: Session,
    blocks: Sequence[tuple[int, Triggers]],
    track: Track,
    bad: Mapping[int, tuple[int, int]],
) -> TrackFit:
    breaks, adapted = [], []
    here = {place(lead.name) for lead in session.leads}
    missing = [name for name in track.leads if place(name) not in here]
    if len(missing) == len(track.leads):
        breaks.append(f"none of its {len(track.leads)} leads is here")
    elif missing:
        shown = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        adapted.append(f"{len(missing)} of its {len(track.leads)} leads are missing: {shown}")
    if session.rate != track.rate:
        adapted.append(f"{session.rate:g} Hz would be resampled to {track.rate} Hz")
    breaks += _not_finite(session, track, bad)
    if session.masked:
        breaks.append("its labels are masked, so it has no truth")
        return TrackFit(track.name, tuple(breaks), tuple(adapted))
    try:
        read_truth(track, session.rate, blocks, session.angles)
    except RuleError as error:
        breaks.append(str(error))
    warnings = [] if breaks else track.warnings(session.rate, blocks)
    return TrackFit(track.name, tuple(breaks), tuple(adapted), tuple(warnings))


def _not_finite(session: Session, track: Track, bad: Mapping[int, tuple[int, int]]) -> list[str]:
    """Why `start` and `prepare` would fail. bad: block and sample of the first, by lead number."""
    played = plan_leads(session.subject, session.leads, SourceOptions(), track).columns
    found = sorted((where, lead) for lead, where in bad.items() if lead in played)
    if not found:
        return []
    (block, sample), lead = found[0]
    more = f", {len(found) - 1} more leads have some" if len(found) > 1 else ""
    where = place_in(block, sample, session.rate)
    return [
        f"{where}: lead {session.leads[lead].name} is not a finite number{more}; refused without ?nan=keep"
    ]
