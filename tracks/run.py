"""A run is one team over one or more subjects: the events of its log in, verdicts and scores out.

Live judging, re-judging and tests all fold the same events through `Run.feed`; no clock is needed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tracks.common.events import Event
from tracks.common.events import field as event_field
from tracks.common.verdicts import Refusal, RunStanding, Verdict, mean
from tracks.errors import RuleError
from tracks.registry import TRACKS
from tracks.track import Referee, Track

LOG_VERSION = 1
TRUTH_FIELDS = ("blocks", "label", "clips", "angles", "trials")
SHOWN_LAST = 5


@dataclass(slots=True)
class SessionState:
    """One subject of a run. given: the verdicts so far, in the order in which they were given."""

    subject: object
    referee: Referee
    given: list[Verdict] = field(default_factory=list)
    over: bool = False
    _score: float | None = 0.0  # None: out of date

    def give(self, verdicts: list[Verdict]) -> None:
        self.given += verdicts
        self._score = None

    def close(self) -> None:
        self.over = True
        self._score = None

    def score(self, track: Track) -> float:
        """The score so far, of what may be shown only; computed again after a new verdict."""
        provisional = [] if self.over else self.referee.provisional()
        if self._score is None or provisional:
            rule = track.score if self.over else track.running
            self._score = rule(self.given + provisional)
        return self._score


@dataclass(slots=True)
class Tally:
    """Totals of the verdicts so far."""

    trials: int = 0
    right: int = 0
    answers: int = 0
    used: float = 0.0
    timed: int = 0
    last: deque[Verdict] = field(default_factory=lambda: deque(maxlen=SHOWN_LAST))

    def add(self, verdict: Verdict, used_unit: str) -> None:
        self.last.append(verdict)
        if not verdict.scored:
            return
        self.trials += 1
        self.right += sum(verdict.right)
        self.answers += len(verdict.right)
        for answer in verdict.answers:
            if answer.right is not None and answer.when is not None and answer.unit == used_unit:
                self.used += answer.when
                self.timed += 1


class Run:
    """Folds the events of one run log. After each event everything here is up to date."""

    def __init__(self) -> None:
        self.track: Track | None = None
        self.team = ""
        self.end_reason: str | None = None
        self.has_truth = False
        self.sessions: list[SessionState] = []
        self._tally = Tally()
        self._kinds: dict[str, Callable[[Event], list[Verdict]]] = {
            "run": self._run,
            "session": self._session,
            "truth": self._truth,
            "packet": self._packet,
            "report": self._report,
            "end": self._end,
        }

    def feed(self, event: Event) -> list[Verdict]:
        """Process one event and return the verdicts that it settles. Unknown kinds are ignored."""
        kind = event_field(event, "kind")
        if not isinstance(kind, str):
            raise RuleError(f"`kind` must be a string; got {kind!r}")
        take = self._kinds.get(kind)
        if take is None:
            return []
        if self.track is None and kind != "run":
            raise RuleError(f"the run line must come first; got a {kind} line")
        return take(event)

    @property
    def decision_due(self) -> bool:
        """Whether the packet just fed completed something that the decoder must now decide on."""
        return bool(self.sessions) and self.sessions[-1].referee.decision_due

    @property
    def void(self) -> bool:
        """Whether the run ended in a way that scores nothing."""
        return self.track is not None and self.end_reason in self.track.rules["void_reasons"]

    def verdicts(self) -> list[Verdict]:
        """Of all trials, as if the run ended here."""
        return [verdict for session in self.sessions for verdict in session.referee.verdicts()]

    def refusals(self) -> list[Refusal]:
        return [refusal for session in self.sessions for refusal in session.referee.refusals]

    def result(self) -> dict[str, Any]:
        """The score as if the run ended here: what `bci-judge score --json` prints."""
        track = self._known_track()
        sessions = [self._session_result(track, session) for session in self.sessions]
        return {
            "track": track.name,
            "team": self.team,
            "score": mean([session["score"] for session in sessions]),
            "unit": track.unit,
            "end": self.end_reason,
            "sessions": sessions,
        }

    def standing(self) -> RunStanding:
        """The totals so far, of trials that are over and may be shown."""
        track, tally = self._known_track(), self._tally
        return RunStanding(
            subject=str(self.sessions[-1].subject) if self.sessions else "",
            score=0.0 if self.void else mean([session.score(track) for session in self.sessions]),
            unit=track.unit,
            trials=tally.trials,
            right=tally.right,
            answers=tally.answers,
            mean_used=tally.used / tally.timed if tally.timed else None,
            used_unit=track.used_unit,
            open=self.sessions[-1].referee.open_trial() if self.sessions else None,
            last=tuple(tally.last),
        )

    def _session_result(self, track: Track, session: SessionState) -> dict[str, Any]:
        verdicts = session.referee.verdicts()
        counted = [verdict for verdict in verdicts if verdict.scored]
        return {
            "subject": session.subject,
            "score": 0.0 if self.void else track.score(verdicts),
            "trials": len(counted),
            "right": sum(flag for verdict in counted for flag in verdict.right),
            "answers": sum(len(verdict.right) for verdict in counted),
            "refused": session.referee.refusals.total,
        }

    def _run(self, event: Event) -> list[Verdict]:
        if self.track is not None:
            raise RuleError("a second run line: a log holds one run")
        if event.get("v", LOG_VERSION) != LOG_VERSION:
            raise RuleError(f"log version {event['v']!r}: this judge reads version {LOG_VERSION}")
        name = event_field(event, "track")
        if not isinstance(name, str) or name not in TRACKS:
            raise RuleError(f"track {name!r} is none of {', '.join(TRACKS)}")
        changes = event.get("rules") or {}
        if not isinstance(changes, dict):
            raise RuleError(f"`rules` must be an object; got {changes!r}")
        self.track = TRACKS[name].under(changes)
        self.team = str(event.get("team", ""))
        return []

    def _session(self, event: Event) -> list[Verdict]:
        track = self._known_track()
        subject = event_field(event, "subject")
        referee = track.referee(str(subject), event_field(event, "rate"))
        given = self._close()
        self.sessions.append(SessionState(subject, referee))
        return given

    def _truth(self, event: Event) -> list[Verdict]:
        self.has_truth = self.has_truth or any(name in event for name in TRUTH_FIELDS)
        return self._give(self._current("truth").referee.truth(event))

    def _packet(self, event: Event) -> list[Verdict]:
        return self._give(self._current("packet").referee.packet(event))

    def _report(self, event: Event) -> list[Verdict]:
        return self._give(self._current("report").referee.report(event))

    def _end(self, event: Event) -> list[Verdict]:
        self.end_reason = str(event_field(event, "reason"))
        return self._close()

    def _close(self) -> list[Verdict]:
        """Close the current session; returns the verdicts that were not given yet."""
        if not self.sessions:
            return []
        session = self.sessions[-1]
        session.close()
        given = {verdict.key for verdict in session.given}
        return self._give([v for v in session.referee.verdicts() if v.key not in given])

    def _give(self, verdicts: list[Verdict]) -> list[Verdict]:
        if verdicts:
            self.sessions[-1].give(verdicts)
            for verdict in verdicts:
                self._tally.add(verdict, self._known_track().used_unit)
        return verdicts

    def _current(self, kind: str) -> SessionState:
        if not self.sessions:
            raise RuleError(f"a {kind} line before any session line")
        return self.sessions[-1]

    def _known_track(self) -> Track:
        if self.track is None:
            raise RuleError("no run line yet")
        return self.track
