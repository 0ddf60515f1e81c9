"""The plan of a replay: sessions that were checked against their track, and their truth.

All checks of a source happen here, before any stream is opened.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from bci_stream.errors import RuleError, SourceError
from bci_stream.packet import Lead
from replay.model.source import Session, Source
from replay.transform.masking import MaskedPacket, masked_packets, packet_samples_of
from tracks.common.truth import read_truth
from tracks.registry import TRACKS
from tracks.rules import Rules
from tracks.track import Track


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
    def leads_sent(self) -> int:
        """Leads of one signal stream: those that a team chooses, or all."""
        return (self.track.choose_leads if self.track else None) or len(self.leads)

    @property
    def packet_samples(self) -> int:
        return packet_samples_of(self.track, self.rate)

    @property
    def n_samples(self) -> int | None:
        lengths = [session.n_samples for session in self.sessions]
        return None if None in lengths else sum(n for n in lengths if n is not None)

    def packets(self, *, endless: bool = False) -> Iterator[MaskedPacket]:
        """All sessions, packet by packet; `finish` is set on the last one.

        endless: start over after the last session, without end; then no packet has `finish`.
        """
        final = len(self.sessions) - 1
        for round_number in count() if endless else (0,):
            for number, session in enumerate(self.sessions):
                yield from masked_packets(
                    self.track,
                    session,
                    number=number,
                    round_number=round_number,
                    last=number == final and not endless,
                )


def make_plan(source: Source, track_name: str | None, rules: Rules | None = None) -> PlaybackPlan:
    """Check a source against a track and read its truth.

    rules: changes that the contest makes to the track's rules.
    Raises SourceError where sessions do not fit together or labels break the track's rules.
    """
    track = TRACKS[track_name].under(rules or {}) if track_name else None
    sessions = tuple(source.sessions())
    if not sessions:
        raise SourceError(f"{source.uri}: there is no recording in it")
    for session in sessions:
        _check_alike(session, sessions[0], source.uri)
    truths = tuple(_truth(session, track, source.uri) for session in sessions)
    return PlaybackPlan(track, sessions, truths, source.live)


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
