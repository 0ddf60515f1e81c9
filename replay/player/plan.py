"""A program is what is going to be played: sessions that were checked against their track, and their truth.

All checks happen here, before anything is on the wire.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bci_stream.errors import RuleError, SourceError
from bci_stream.packet import Lead
from replay.model.source import Session, Source
from tracks.common.truth import read_truth
from tracks.registry import TRACKS
from tracks.rules import Rules
from tracks.track import Track

PACKET_S = 0.04
"""How long a packet is where no track says so."""

ANGLE_ROWS = 6000
"""Truth of ecog is sent in pieces of this many rows: one text may not be endless."""


@dataclass(frozen=True)
class PlaybackPlan:
    """What a replay plays, in order. Without a track nothing is masked and there is no truth."""

    track: Track | None
    sessions: tuple[Session, ...]
    truths: tuple[dict[str, Any] | None, ...]
    live: bool

    @property
    def track_name(self) -> str:
        return self.track.name if self.track else ""

    @property
    def rate(self) -> float:
        return self.sessions[0].rate

    @property
    def leads(self) -> tuple[Lead, ...]:
        return self.sessions[0].leads

    @property
    def packet_samples(self) -> int:
        if self.track is not None:
            return self.track.packet_samples_at(self.rate)
        return max(1, round(PACKET_S * self.rate))

    @property
    def n_samples(self) -> int | None:
        lengths = [session.n_samples for session in self.sessions]
        return None if None in lengths else sum(n for n in lengths if n is not None)


def make_plan(source: Source, track_name: str | None, rules: Rules | None = None) -> PlaybackPlan:
    """Read a source against a track; a SourceError or TruthError says what does not fit.

    rules: what the contest changes of the track's.
    """
    track = TRACKS[track_name].under(rules or {}) if track_name else None
    sessions = tuple(source.sessions())
    if not sessions:
        raise SourceError(f"{source.uri}: there is no recording in it")
    for session in sessions:
        _check_alike(session, sessions[0], source.uri)
    truths = tuple(_truth(session, track, source.uri) for session in sessions)
    return PlaybackPlan(track, sessions, truths, source.live)


def truth_pieces(truth: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A session's truth in events of bearable size; they accumulate (session-log.md)."""
    rest = {key: value for key, value in truth.items() if key not in ("kind", "angles")}
    if rest or "angles" not in truth:
        yield rest
    rows = truth.get("angles", ())
    for start in range(0, len(rows), ANGLE_ROWS):
        yield {"angles": rows[start : start + ANGLE_ROWS]}


def _truth(session: Session, track: Track | None, uri: str) -> dict[str, Any] | None:
    blocks = session.block_triggers() if track is not None else None
    if track is None or blocks is None:
        return None
    try:
        return read_truth(track, session.rate, blocks, session.angles)
    except RuleError as error:
        raise SourceError(
            f"{uri}, subject {session.subject}, track {track.name}: {error}"
        ) from error


def _check_alike(session: Session, first: Session, uri: str) -> None:
    """One signal stream carries all sessions, so they must have its rate and its leads."""
    if session.rate != first.rate:
        raise SourceError(
            f"{uri}: subject {session.subject} has {session.rate:g} Hz, but {first.subject} has "
            f"{first.rate:g} Hz; one replay has one rate: play them apart, or resample (--resample)"
        )
    mine, theirs = [lead.name for lead in session.leads], [lead.name for lead in first.leads]
    if mine != theirs:
        raise SourceError(
            f"{uri}: subject {session.subject} has other leads than {first.subject}: "
            f"{sorted(set(mine) ^ set(theirs)) or 'the same ones in another order'}; play them apart, "
            "or choose the leads (--leads)"
        )
