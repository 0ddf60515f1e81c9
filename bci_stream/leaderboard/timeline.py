"""A lane is the time line of what a team is being asked right now: triggers, and its reports."""

from typing import Any, Final

from tracks.common.codes import BLOCK_START, BlockCounter
from tracks.registry import TRACKS

MARKS_KEPT: Final = 96


class TrialTimeline:
    """One team's time line; positions are seconds of data since its trial could be used."""

    def __init__(self, track: str) -> None:
        self._facts = TRACKS[track].timeline
        self.subject = ""
        self.samples_seen = 0
        self.begin("", 1.0)

    def begin(self, subject: str, rate: float) -> None:
        """A subject begins."""
        self.subject = subject
        self._rate = rate
        self._blocks = BlockCounter()
        self._trial = -1
        self._now = 0
        self._restart()

    def packet(self, n: int, triggers: list[list[int]]) -> None:
        first = self._now
        self._now = first + n
        self.samples_seen += n
        if triggers:
            for offset, code in triggers:
                self._trigger(first + offset, code)
        if self._facts.begins is None and self._at(self._now) > self._facts.span_s:
            self._restart()

    def report(self) -> None:
        if len(self._reports) < MARKS_KEPT:
            self._reports.append(self._now)

    def _trigger(self, position: int, code: int) -> None:
        self._blocks.see(code)
        begins = self._facts.begins
        if begins is not None and begins(code):
            self._trial += 1
            self._restart()
        elif code == BLOCK_START:
            self._trial = -1
        if len(self._triggers) < MARKS_KEPT:
            self._triggers.append((position, code))

    def _restart(self) -> None:
        self._origin = self._now
        self._triggers: list[tuple[int, int]] = []
        self._reports: list[int] = []

    def _at(self, position: int) -> float:
        return (position - self._origin) / self._rate

    def view(self) -> dict[str, Any]:
        """What the page draws; the trial is None where the track has none or none has begun."""
        return {
            "subject": self.subject,
            "block": self._blocks.current,
            "trial": self._trial if self._trial >= 0 else None,
            "span_s": self._facts.span_s,
            "now_s": round(self._at(self._now), 3),
            "triggers": [[round(self._at(at), 3), code] for at, code in self._triggers],
            "reports": [round(self._at(at), 3) for at in self._reports],
        }
