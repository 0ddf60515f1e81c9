"""What is settled when trials close: their verdicts, and how the run stands after them.

An embargo keeps it back until every team that may still be asked the same trial has closed it too.
Where teams hear one replay in real time that is at once: a trial that a packet closed is behind all of
them. But in lockstep each team has its own replay, and a fast team's verdicts would tell a slow one its
labels; and a team that leaves early is judged on all that it missed, which the others have still before
them.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracks.common.verdicts import RunStanding, Verdict
from tracks.run import Run

Key = tuple[str, str]
"""(track, team)."""
TrialKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Settled:
    """The verdicts that fell together, and what may be shown with them.

    t: seconds of the judge's clock, where the log has them. result: the final scores, once the run
    has ended. angles: the traces of the last of the trials (ecog). ahead: no packet closed them, so
    that they may be still before the other teams.
    """

    verdicts: Sequence[Verdict]
    standing: RunStanding
    t: float | None
    result: dict[str, Any] | None
    angles: dict[str, Any] | None = None
    ahead: bool = False

    @property
    def trials(self) -> set[TrialKey]:
        return {(v.subject, v.block, v.trial) for v in self.verdicts}


def settles(event: Mapping[str, Any], verdicts: Sequence[Verdict]) -> bool:
    """Whether the event closed a trial or ended the run."""
    return bool(verdicts) or event["kind"] == "end"


def settle(
    event: Mapping[str, Any],
    verdicts: Sequence[Verdict],
    run: Run,
    angles: dict[str, Any] | None,
    *,
    complete: bool,
) -> Settled:
    """What an event that `settles` something leaves to be shown; complete: all packets have come."""
    t = event.get("t")
    time_s = float(t) if isinstance(t, int | float) else None
    result = run.result() if event["kind"] == "end" else None
    ahead = event["kind"] not in ("packet", "report") and not complete
    return Settled(verdicts, run.standing(), time_s, result, angles, ahead)


class Embargo:
    """Holds what is settled, team by team, in order."""

    def __init__(self) -> None:
        self._held: dict[Key, deque[Settled]] = {}
        self._closed: dict[Key, set[TrialKey]] = {}

    def add(self, key: Key, settled: Settled) -> None:
        self._held.setdefault(key, deque()).append(settled)
        self._closed.setdefault(key, set()).update(settled.trials)

    def forget(self, key: Key) -> None:
        """The team begins anew."""
        self._held.pop(key, None)
        self._closed.pop(key, None)

    def holds(self, key: Key) -> bool:
        return bool(self._held.get(key))

    def pass_by(self, key: Key) -> None:
        """The team heard another packet: what was settled before it is not ahead of anybody."""
        self._held[key] = deque(replace(settled, ahead=False) for settled in self._held[key])

    def release(
        self, waits_for: Callable[[Key, Settled], Collection[Key]]
    ) -> Iterator[tuple[Key, Settled]]:
        """What may be shown now; waits_for: the teams that may still be asked what this one was."""
        for key, held in self._held.items():
            while held and self._closed_by(waits_for(key, held[0]), held[0].trials):
                yield key, held.popleft()

    def _closed_by(self, teams: Collection[Key], trials: set[TrialKey]) -> bool:
        return all(trials <= self._closed.get(team, set()) for team in teams)
