"""Cross-validation folds of recordings: by person, by block, or by blocks with all classes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import Lead, Triggers
from decoders.offline import OfflineRun, track_of
from replay.model.source import RawPacket, Session
from tracks.common.angles import row_at
from tracks.common.numbers import exact_rate
from tracks.common.truth import read_truth
from tracks.common.verdicts import Verdict


@dataclass(frozen=True)
class SessionPart:
    """The blocks `kept` of a session, renumbered from 0; implements `replay.model.source.Session`."""

    whole: Session
    kept: tuple[int, ...]

    @property
    def subject(self) -> str:
        return self.whole.subject

    @property
    def rate(self) -> float:
        return self.whole.rate

    @property
    def leads(self) -> tuple[Lead, ...]:
        return self.whole.leads

    @property
    def n_samples(self) -> int:
        return sum(n for n, _ in self.block_triggers())

    @property
    def notes(self) -> tuple[str, ...]:
        return self.whole.notes

    @property
    def masked(self) -> bool:
        return self.whole.masked

    @property
    def angles(self) -> NDArray[np.float64] | None:
        if self.whole.angles is None:
            return None
        return np.concatenate([self.whole.angles[rows] for rows in self._rows()])

    def block_triggers(self) -> Sequence[tuple[int, Triggers]]:
        blocks = self.whole.block_triggers() or ()
        return [blocks[number] for number in self.kept]

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        for packet in self.whole.packets(packet_samples):
            if packet.block in self.kept:
                yield replace(packet, block=self.kept.index(packet.block))

    def _rows(self) -> list[slice]:
        lengths = [n for n, _ in self.whole.block_triggers() or ()]
        bounds = [0, *accumulate(lengths)]
        rows = [row_at(bound, exact_rate(self.rate)) for bound in bounds]
        return [slice(rows[number], rows[number + 1]) for number in self.kept]


def n_blocks(session: Session) -> int:
    """How many blocks a recorded session has."""
    return len(session.block_triggers() or ())


MAX_FOLDS = 5
MAX_PEOPLE = 10
"""Of more people not one but a fifth is left out each time: eighty trainings would take a night."""

Part = tuple[int, int]
"""(place of a session, block of it)"""


@dataclass(frozen=True)
class Fold:
    """train on some sessions, test on others."""

    name: str
    training: list[Session]
    test: list[Session]


def left_out(track: str, sessions: Sequence[Session]) -> tuple[list[Fold], str]:
    """How to leave a part out each time, and in words what is left out."""
    people = sorted({session.subject for session in sessions})
    if track_of(track).left_out == "person" and len(people) > 1:
        if len(people) <= MAX_PEOPLE:
            return [_without_people(sessions, [one]) for one in people], "a person left out"
        folds = [_without_people(sessions, people[k::MAX_FOLDS]) for k in range(MAX_FOLDS)]
        return folds, f"1/{MAX_FOLDS} of the people left out"
    units = _units(track, sessions)
    if len(units) < 2:
        what = "one block" if sum(map(len, units)) == 1 else "one set of all classes"
        return [], f"{what} of one person: nothing can be left out"
    n_folds = min(len(units), MAX_FOLDS)
    folds = [_without(sessions, list(chain(*units[k::n_folds]))) for k in range(n_folds)]
    if n_folds < len(units):
        return folds, f"1/{n_folds} of the blocks out"
    joined = any(len(unit) > 1 for unit in units)
    return folds, "blocks that make up all classes left out" if joined else "a block left out"


def judged_together(outcomes: Sequence[OfflineRun]) -> float:
    """The score of all that was left out, by the rules of its runs: what is of one subject as one session."""
    by_subject: dict[str, list[Verdict]] = {}
    begun = 0  # blocks of other folds keep apart
    for session in (session for outcome in outcomes for session in outcome.run.sessions):
        verdicts = session.referee.verdicts()
        moved = [replace(verdict, block=begun + verdict.block) for verdict in verdicts]
        by_subject.setdefault(str(session.subject), []).extend(moved)
        begun += 1 + max((verdict.block for verdict in verdicts), default=0)
    track = outcomes[0].run.track
    assert track is not None
    return float(np.mean([track.score(verdicts) for verdicts in by_subject.values()]))


def _without_people(sessions: Sequence[Session], people: Sequence[str]) -> Fold:
    return Fold(
        ", ".join(people[:2]) + (", ..." if len(people) > 2 else ""),
        [session for session in sessions if session.subject not in people],
        [session for session in sessions if session.subject in people],
    )


def _without(sessions: Sequence[Session], out: Sequence[Part]) -> Fold:
    training: list[Session] = []
    test: list[Session] = []
    for place, whole in enumerate(sessions):
        tested = tuple(block for where, block in out if where == place)
        kept = tuple(block for block in range(n_blocks(whole)) if block not in tested)
        training += [SessionPart(whole, kept)] if kept else []
        test += [SessionPart(whole, tested)] if tested else []
    name = ", ".join(f"block {block} of {sessions[place].subject}" for place, block in out[:2])
    return Fold(name + (", ..." if len(out) > 2 else ""), training, test)


def _units(track: str, sessions: Sequence[Session]) -> list[list[Part]]:
    """What is left out as one: a block, or a subject's blocks in order until all classes are there."""
    parts = [
        (place, block)
        for place, session in enumerate(sessions)
        for block in range(n_blocks(session))
    ]
    if track_of(track).left_out != "classes":
        return [[part] for part in parts]
    by_subject: dict[str, list[Part]] = {}
    for place, block in parts:
        by_subject.setdefault(sessions[place].subject, []).append((place, block))
    return [unit for own in by_subject.values() for unit in _complete(track, sessions, own)]


def _complete(track: str, sessions: Sequence[Session], parts: list[Part]) -> list[list[Part]]:
    labels = {part: _labels(track, sessions[part[0]], part[1]) for part in parts}
    wanted = set().union(*labels.values())
    units: list[list[Part]] = [[]]
    have: set[object] = set()
    for part in parts:
        units[-1].append(part)
        have |= labels[part]
        if have == wanted:
            units.append([])
            have = set()
    rest = units.pop()
    if rest and units:
        units[-1] += rest
    return units or [rest]


def _labels(track: str, session: Session, block: int) -> set[object]:
    blocks = session.block_triggers() or ()
    try:
        truth = read_truth(track_of(track), session.rate, [blocks[block]])
    except TruthError:  # a block without a label
        return set()
    return {label for labels in truth["blocks"] for label in labels}
