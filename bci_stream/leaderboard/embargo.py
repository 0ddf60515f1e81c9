"""Embargo: holds the results of closed trials back while another team may still be asked the same.

In real time all teams receive one replay, so a trial that a packet closed is over for all of them and
can be shown at once. In lockstep each team has its own replay, and the verdicts of a fast team would
give the labels to a slow one, also to a team on the contest's list that has not begun. A team that
leaves early is judged on the trials that it missed, which the other teams have not received yet.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bci_stream.leaderboard.verdict_rows import TrialPlace
from tracks.common.verdicts import RunStanding, Verdict

TeamKey = tuple[str, str]
"""(track, team)."""


@dataclass(frozen=True, slots=True)
class ClosedTrials:
    """The trials that one event of the run log closed, with their verdicts, and what is shown with them.

    standing: of the run after the event. t: seconds on the judge's clock; None if the log has none.
    result: the final scores if the event ended the run. traces: of the last trial, where reports are
    traces. ahead: no packet closed the trials, so the other teams may not have received them yet.
    """

    trials: Mapping[TrialPlace, Verdict]
    standing: RunStanding
    t: float | None
    result: dict[str, Any] | None
    traces: dict[str, Any] | None = None
    ahead: bool = False


class Embargo:
    """Closed trials that are not shown yet, by team, in order."""

    def __init__(self) -> None:
        self._held: dict[TeamKey, deque[ClosedTrials]] = {}
        self._closed: dict[TeamKey, set[TrialPlace]] = {}

    def add(self, key: TeamKey, closed: ClosedTrials) -> None:
        self._held.setdefault(key, deque()).append(closed)
        self._closed.setdefault(key, set()).update(closed.trials)

    def remove_team(self, key: TeamKey) -> None:
        """Drop everything about a team, because its next run begins."""
        self._held.pop(key, None)
        self._closed.pop(key, None)

    def holds(self, key: TeamKey) -> bool:
        return bool(self._held.get(key))

    def packet_received(self, key: TeamKey) -> None:
        """The team received another packet: what it closed before is not ahead of other teams."""
        self._held[key] = deque(replace(closed, ahead=False) for closed in self._held[key])

    def release(
        self, waits_for: Callable[[TeamKey, ClosedTrials], Collection[TeamKey]]
    ) -> Iterator[tuple[TeamKey, ClosedTrials]]:
        """Remove and yield what may be shown; waits_for: the teams that may still be asked the same."""
        for key, held in self._held.items():
            while held and self._closed_by(waits_for(key, held[0]), held[0].trials):
                yield key, held.popleft()

    def _closed_by(self, teams: Collection[TeamKey], trials: Collection[TrialPlace]) -> bool:
        return all(self._closed.get(team, set()).issuperset(trials) for team in teams)
