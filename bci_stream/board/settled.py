"""What is settled when trials close: their verdicts, and how the run stands after them.

An embargo keeps it back until every team that may still be asked the same trial has closed it too.
In real time that is at once; in lockstep each team has its own replay, and a fast team's verdicts
would tell a slow one its labels.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracks.run import Run
from tracks.verdict import Standing, Verdict

Key = tuple[str, str]
"""(track, team)."""
TrialKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Settled:
    """The verdicts that fell together, and what may be shown with them.

    t: seconds of the judge's clock, where the log has them. result: the final scores, once the run
    has ended. angles: the traces of the last of the trials (ecog).
    """

    verdicts: Sequence[Verdict]
    standing: Standing
    t: float | None
    result: dict[str, Any] | None
    angles: dict[str, Any] | None = None

    @property
    def trials(self) -> set[TrialKey]:
        return {(v.subject, v.block, v.trial) for v in self.verdicts}


def settles(event: Mapping[str, Any], verdicts: Sequence[Verdict]) -> bool:
    """Whether the event closed a trial or ended the run."""
    return bool(verdicts) or event["kind"] == "end"


def settle(
    event: Mapping[str, Any], verdicts: Sequence[Verdict], run: Run, angles: dict[str, Any] | None
) -> Settled:
    """What an event that `settles` something leaves to be shown."""
    t = event.get("t")
    time_s = float(t) if isinstance(t, int | float) else None
    result = run.result() if event["kind"] == "end" else None
    return Settled(verdicts, run.standing(), time_s, result, angles)


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

    def release(self, in_play: Collection[Key]) -> Iterator[tuple[Key, Settled]]:
        """What may be shown now; in_play: the teams that may still be asked what others were."""
        for key, held in self._held.items():
            others = [other for other in in_play if other != key and other[0] == key[0]]
            while held and all(self._has_closed(other, held[0].trials) for other in others):
                yield key, held.popleft()

    def _has_closed(self, key: Key, trials: set[TrialKey]) -> bool:
        return trials <= self._closed.get(key, set())
