"""How a judge catches up with a run that went on without it, or of which it has missed messages.

It asks the replay for the history of the run. What teams send until that is complete is held back, so that
events are folded in their order.
"""

import math
from collections.abc import Set
from dataclasses import dataclass

from bci_stream.wire.messages import Ready, ResultsMessage

ANSWER_S = 4.0
"""How long a restarted judge waits for the teams' answers; a team that has left gives none."""


@dataclass(frozen=True)
class HeldMessage:
    """A verified message of a team: what was received, its text, and when it arrived."""

    message: ResultsMessage
    text: str
    at: float


class CatchUp:
    """Whether the judge catches up at present, since when, and what it holds back meanwhile.

    is_active: the history has been asked for, or is to be. is_restart: an earlier judge has judged this run.
    missed_start: that judge stopped before it had begun a log, so that the run's start is in no log.
    """

    def __init__(self) -> None:
        self.is_active = False
        self.is_restart = False
        self.missed_start = False
        self._first_left = math.inf
        self._held: list[HeldMessage] = []
        self._history: tuple[float, float] | None = None  # (gone_at, when it was complete)

    @property
    def needs_history(self) -> bool:
        return self.is_active and self._history is None

    def begin(self) -> None:
        """Messages of the replay are missing."""
        self.is_active = True

    def begin_after_start(self) -> None:
        """The run has begun under an earlier judge, which has left no log."""
        self.is_active = self.is_restart = self.missed_start = True

    def begin_after_restart(self, *, is_active: bool) -> None:
        """An earlier judge has left logs; is_active: some of the runs go on."""
        self.is_restart = True
        self.is_active = is_active

    def hold(self, message: ResultsMessage, text: str, at: float) -> None:
        self._held.append(HeldMessage(message, text, at))

    def add_packet(self, left: float) -> None:
        """A packet of the run left at this time."""
        self._first_left = min(self._first_left, left)

    def set_history(self, gone_at: float, at: float) -> None:
        """The history was complete at this time; gone_at: when the replay last received from a judge."""
        self._history = self._history or (gone_at, at)

    def is_complete(self, now: float, running: Set[str], *, lockstep: bool) -> bool:
        """Whether the judge has all that it waits for; running: teams whose runs have not ended.

        In real time a restarted judge first waits until each team has sent again what it had to send: a
        message that came later would hold up those after it.
        """
        if not self.is_active or self._history is None:
            return False
        waits = self.is_restart and not lockstep and now - self._history[1] < ANSWER_S
        return not waits or self._answered() >= running

    def _answered(self) -> set[str]:
        """The teams that have sent `ready`, as each does after it has sent its messages again."""
        return {held.message.team for held in self._held if isinstance(held.message, Ready)}

    def finish(self, now: float) -> tuple[float | None, list[HeldMessage]]:
        """End the catching up: since when no judge was there (None if there was one), and what was held.

        What teams sent while no judge was there counts as received when the last one was.
        """
        assert self._history is not None
        gone_at, _ = self._history
        latest, absent_since = now, None
        if self.is_restart:
            latest = gone_at
            absent_since = min(self._first_left, gone_at) if self.missed_start else gone_at
        held = [HeldMessage(h.message, h.text, min(h.at, latest)) for h in self._held]
        self.is_active = self.is_restart = False
        self._held, self._history = [], None
        return absent_since, held
