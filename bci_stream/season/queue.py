"""The order of a season's work: round robin over teams, bounded for each; pure functions.

A unit is one piece of work on a submission: its check (number 0) or a run (number 1). Units of one team
are done in the order in which they came. Among teams the one that was served longest ago comes first,
so that no team waits for more than one unit of each other team before its next one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

CHECK: Final = 0
"""Number of the unit that checks a submission; runs have numbers from 1."""

Stage = Literal[
    "received", "checking", "rejected", "queued", "running", "judged", "failed", "disqualified"
]
PENDING: Final = frozenset[Stage]({"received", "checking", "queued", "running"})
"""Stages of a submission that still has work to be done."""

FaultSide = Literal["", "team", "organiser"]
"""Who a failure counts against."""

FIRST_RETRY_S: Final = 15.0
LONGEST_RETRY_S: Final = 600.0
MOST_ATTEMPTS: Final = 10
"""Of a unit that fails through the organiser's side; then the organiser has to look at it."""


@dataclass(frozen=True, slots=True)
class TeamQueue:
    """A team with waiting units.

    turn: when it was last served, as a number that grows with each unit; 0 for never. first: the position of
    its first waiting unit. waiting, running: how many units.
    """

    team: str
    turn: int
    first: int
    waiting: int
    running: int


def next_team(queues: Iterable[TeamQueue], most_a_team: int) -> str | None:
    """The team whose first waiting unit is next; None if all are at their bound."""
    able = [queue for queue in queues if queue.waiting and queue.running < most_a_team]
    return min(able, key=_order).team if able else None


def _order(queue: TeamQueue) -> tuple[int, int, str]:
    return queue.turn, queue.first, queue.team


class QueuePlaces:
    """Places in the queues of all teams at one time; what a place takes is kept for the next one."""

    def __init__(self, queues: Iterable[TeamQueue]) -> None:
        in_order = sorted(queues, key=_order)
        self._waiting = [queue.waiting for queue in in_order]
        self._position = {queue.team: number for number, queue in enumerate(in_order)}
        self._sums: dict[int, list[int]] = {}

    def units_ahead(self, team: str, own_ahead: int) -> int | None:
        """How many units are begun before one that has `own_ahead` units of its own team before it.

        Exact if no unit arrives meanwhile and teams are not held back by their bound. None if no unit of the
        team waits.
        """
        position = self._position.get(team)
        if position is None:
            return None
        before = self._first_units(own_ahead + 1)[position]
        turns = self._first_units(own_ahead)
        return own_ahead + before + turns[-1] - turns[position + 1]

    def _first_units(self, most: int) -> list[int]:
        """Waiting units of the first n teams together, at most so many of each, for n from 0 to all."""
        if most not in self._sums:
            each = (min(waiting, most) for waiting in self._waiting)
            self._sums[most] = list(accumulate(each, initial=0))
        return self._sums[most]


def retry_delay_s(failures: int) -> float:
    """How long a unit waits after so many failures through the organiser's side."""
    return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 16), LONGEST_RETRY_S)
