"""Blocks that the operator has asked to be played again, at the end of their session.

A block that is played again is a new block of the same session: it has the next number, its packets begin
with its own 242, and its truth is sent to the judge before its first packet. So the run log needs no rule of
its own for it, and the block that it replaces is void.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import BciError, RuleError, SourceError
from bci_stream.packet import Triggers
from replay.model.recording import Block, Recording
from replay.model.source import Session
from replay.player.journal import RunJournal
from replay.player.plan import PlaybackPlan
from replay.player.prefetch import Prefetch
from replay.transform.masking import MaskedPacket, masked_packets
from tracks.common.angles import row_at
from tracks.common.codes import BLOCK_START
from tracks.common.numbers import exact_rate
from tracks.common.truth import read_truth
from tracks.track import Track

logger = logging.getLogger(__name__)


class RepeatedSession:
    """A session, and the blocks that are played again behind it.

    Blocks are counted from 0 as in the run log: block k begins at the k-th 242.
    """

    def __init__(self, session: Session, track: Track) -> None:
        self._session = session
        self._track = track
        triggers = session.block_triggers()
        if triggers is None or not track.rules.get("block_codes", True):
            raise SourceError("it has no blocks: a device is live, or 242 has no meaning here")
        self._pieces: list[tuple[int, Triggers]] = list(triggers)
        self._origins = list(range(len(self._pieces)))  # whose samples a piece has
        self._angles = None if session.angles is None else np.asarray(session.angles)

    def add(self, block: int) -> tuple[Recording, int, dict[str, Any]]:
        """The block as a recording, the number of its packets' block, and its truth line.

        Raises SourceError if the recording does not show where the block begins and ends.
        """
        piece = self._piece_of(block)
        rows, angles = self._longer_angles(piece)
        truth = self._truth_of(self._pieces[piece], angles)
        if angles is not None:
            truth["angles"] = angles[rows:].tolist()
            if not truth.get("trials"):
                raise SourceError("without trials (240, 241) all its rows of angles are one trial")
        self._angles = angles
        self._pieces.append(self._pieces[piece])
        self._origins.append(self._origins[piece])
        of_piece: Block = self._session.blocks[self._origins[piece]]  # type: ignore[attr-defined]
        source = self._session
        recording = Recording(source.subject, source.rate, source.leads, [of_piece])
        return recording, len(self._pieces) - 1, truth

    def _piece_of(self, block: int) -> int:
        """The piece of the recording that has the block's 242, and no other one."""
        starts = [
            number
            for number, (_, triggers) in enumerate(self._pieces)
            for _, code in triggers
            if code == BLOCK_START
        ]
        if block >= len(starts):
            raise SourceError(f"its triggers have {len(starts)} block starts (242)")
        if starts.count(starts[block]) > 1:
            raise SourceError("its recording is not cut at each block start (242)")
        return starts[block]

    def _longer_angles(self, piece: int) -> tuple[int, NDArray[np.float64] | None]:
        """ecog: the angles with those of the piece once more, in the rows that its new packets hold.

        Also returns how many rows stand before those; a truth line that is shorter is filled up to there.
        """
        if self._angles is None:
            return 0, None
        rate = exact_rate(self._session.rate)
        lengths = [n for n, _ in self._pieces]
        total, start, known = sum(lengths), sum(lengths[:piece]), len(self._angles)
        rows = row_at(total, rate)
        if not known:
            raise SourceError("it has no rows of angles")
        first, wanted = row_at(start, rate), row_at(total + lengths[piece], rate) - rows
        taken = self._angles[np.minimum(np.arange(first, first + wanted), known - 1)]
        before = self._angles[np.minimum(np.arange(rows), known - 1)]
        return min(rows, known), np.concatenate([before, taken])

    def _truth_of(
        self, piece: tuple[int, Triggers], angles: NDArray[np.float64] | None
    ) -> dict[str, Any]:
        """The truth line of a piece that stands behind all others."""
        starts = [
            (n, tuple((at, code) for at, code in triggers if code == BLOCK_START))
            for n, triggers in self._pieces
        ]
        try:
            truth = read_truth(self._track, self._session.rate, [*starts, piece], angles)
        except RuleError as error:
            raise SourceError(str(error)) from error
        return {name: value for name, value in truth.items() if name != "kind"}


class BlockRepeater:
    """Puts the blocks that are played again behind the last packet of their session.

    asked: (session, block) of each request so far, counted from 0. stop: of a replay in real time, where the
    packets are made ahead; None in lockstep. report: called with what could not be played again, and why.
    """

    def __init__(
        self,
        plan: PlaybackPlan,
        journal: RunJournal,
        asked: Callable[[], Sequence[tuple[int, int]]],
        *,
        stop: threading.Event | None,
        report: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._asked = asked
        self._stop = stop
        self._report = report
        self._taken: set[tuple[int, int]] = set()
        self._sessions: dict[int, RepeatedSession] = {}
        self._next: Iterator[MaskedPacket] | None = None

    def chain(self, packets: Iterable[MaskedPacket]) -> Iterator[MaskedPacket]:
        """The packets, and those of each block for which `settle` found a request."""
        for packet in packets:
            yield packet
            while self._next is not None:
                following, self._next = self._next, None
                yield from following

    def settle(self, packet: MaskedPacket) -> MaskedPacket:
        """The packet as it is sent, asked for at the last moment.

        Behind the last packet of a session the next block that was asked for follows; then the packet does
        not finish the run.
        """
        if not packet.last_of_session or self._plan.track is None:
            return packet
        for session, block in list(self._asked()):
            if session == packet.session and (session, block) not in self._taken:
                self._taken.add((session, block))
                try:
                    self._next = self._packets(session, block, packet.finish)
                except BciError as error:
                    text = (
                        f"block {block + 1} of session {session + 1} is not played again: {error}"
                    )
                    logger.warning("%s", text)
                    self._report(text)
                    continue
                logger.info("block %d of session %d is played again", block + 1, session + 1)
                return replace(packet, finish=False)
        return packet

    def _packets(self, session: int, block: int, finish: bool) -> Iterator[MaskedPacket]:
        """The packets of a block that is played again; the first one brings its truth."""
        assert self._plan.track is not None
        if session not in self._sessions:
            source = self._plan.sessions[session]
            self._sessions[session] = RepeatedSession(source, self._plan.track)
        recording, number, truth = self._sessions[session].add(block)
        self._journal.add_samples(session, recording.n_samples)
        made = masked_packets(self._plan.track, recording, number=session, last=finish)
        return self._made_ahead(made, number, {**truth, "again_of": block})

    def _made_ahead(
        self, made: Iterator[MaskedPacket], number: int, truth: dict[str, Any]
    ) -> Iterator[MaskedPacket]:
        ahead: AbstractContextManager[Iterable[MaskedPacket]] = (
            nullcontext(made) if self._stop is None else Prefetch(made, self._stop)
        )
        with ahead as packets:
            for k, packet in enumerate(packets):
                yield replace(packet, block=number, truth=() if k else (truth,))
