"""Blocks of a replay that the operator wants to be played again, as the judge follows them."""

from collections import Counter
from typing import Any

from bci_stream.errors import ContestError
from bci_stream.wire.messages import PacketNote
from tracks.common.codes import BLOCK_START

BlockPlace = tuple[int, int]
"""(session, block), counted from 0 as in the run log."""


class BlockRequests:
    """Which blocks were asked for, and which of them the replay has begun to play.

    asked: in the order in which the operator asked.
    """

    def __init__(self) -> None:
        self.asked: list[BlockPlace] = []
        self._played: set[BlockPlace] = set()
        self._late: set[BlockPlace] = set()
        self._begun: Counter[int] = Counter()  # blocks that have begun, by session
        self._session = 0
        self._is_over = False

    def check(self, session: int, block: int) -> None:
        """Raise ContestError if a block can't be played again now."""
        what = f"block {block + 1} of session {session + 1}"
        if (session, block) in self.asked:
            raise ContestError(
                f"{what} is played again already; that block has a number of its own, the next one of the "
                "session"
            )
        if session < self._session or self._is_over:
            raise ContestError(
                f"{what} can't be played again: the last packet of its session has left; void it instead"
            )
        if session > self._session or block >= self._begun[session]:
            begun = self._begun[self._session]
            raise ContestError(
                f"{what} has not begun; {begun} blocks of session {self._session + 1} have, by their "
                "triggers (242)"
            )

    def add_packet(self, note: PacketNote) -> list[BlockPlace]:
        """A packet has left; returns the blocks that were asked for too late, each once."""
        self._session = max(self._session, note.session)
        self._begun[note.session] += sum(code == BLOCK_START for _, code in note.triggers)
        self._is_over = self._is_over or note.finish
        late = [
            place
            for place in self.asked
            if place not in self._played | self._late
            and (self._is_over or place[0] < self._session)
        ]
        self._late.update(late)
        return late

    def add_truth(self, session: int, event: dict[str, Any] | None) -> None:
        """Truth of the replay; that of a block which is played again names the block."""
        if event is not None and isinstance(event.get("again_of"), int):
            self._played.add((session, event["again_of"]))
