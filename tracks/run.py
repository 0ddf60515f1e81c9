"""A run is one team over one or more subjects: the events of its log in, verdicts and scores out.

Live judging, re-judging and tests all fold the same events through `Run.feed`; no clock is needed.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracks.common.events import Event
from tracks.common.events import field as event_field
from tracks.common.outages import Outage, VoidDecision, nothing_left, read_outage, read_void
from tracks.common.verdicts import Refusal, RunStanding, Verdict, mean
from tracks.errors import RuleError
from tracks.registry import TRACKS
from tracks.track import Referee, Track

LOG_VERSIONS = (1, 2)
TRUTH_FIELDS = ("blocks", "label", "clips", "angles", "trials")
SHOWN_LAST = 5


@dataclass(slots=True)
class SessionState:
    """One subject of a run; number: counted from 0."""

    number: int
    subject: object
    referee: Referee
    over: bool = False
    _given: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    _score: float | None = 0.0
    _out_of_date: bool = False

    @property
    def given(self) -> list[Verdict]:
        """The verdicts so far, as last revised, in the order in which they were first given."""
        return list(self._given.values())

    def give(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Add verdicts; returns those that are new, or count otherwise than they did."""
        new = []
        for verdict in self._numbered(verdicts):
            before = self._given.get(verdict.key)
            if before is None or not verdict.counts_as(before):
                self._given[verdict.key] = verdict
                new.append(verdict)
        self._out_of_date = True
        return new

    def close(self) -> None:
        self.over = True
        self._out_of_date = True

    def verdicts(self) -> list[Verdict]:
        """Of all trials, as if the session ended here."""
        return self._numbered(self.referee.verdicts())

    def judged_again(self) -> list[Verdict]:
        """The verdicts of the trials that have one already, as they are now."""
        now = self.referee.verdicts() if self._given else []
        return [verdict for verdict in now if verdict.key in self._given]

    def _numbered(self, verdicts: list[Verdict]) -> list[Verdict]:
        return [replace(verdict, session=self.number) for verdict in verdicts]

    def score(self, track: Track) -> float | None:
        """The score so far, of what may be shown only; None if all of it is void.

        It is computed again after a new verdict.
        """
        provisional = [] if self.over else self.referee.provisional()
        if self._out_of_date or provisional:
            rule = track.score if self.over else track.running
            self._score = score_by(rule, [*self.given, *provisional])
            self._out_of_date = bool(provisional)
        return self._score


def score_by(rule: Callable[[Sequence[Verdict]], float], verdicts: list[Verdict]) -> float | None:
    """The score of a session; None if nothing is left of it."""
    return None if nothing_left(verdicts) else rule(verdicts)


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
        self._void_lines: dict[int, list[Outage | VoidDecision]] = {}
        self._kinds: dict[str, Callable[[Event], list[Verdict]]] = {
            "run": self._run,
            "session": self._session,
            "truth": self._truth,
            "packet": self._packet,
            "report": self._report,
            "outage": self._outage,
            "void": self._void,
            "end": self._end,
        }

    def feed(self, event: Event) -> list[Verdict]:
        """Process one event and return the verdicts that it settles. Unknown kinds are ignored.

        A verdict on a trial that has one already revises it: an outage or void line may come after.
        """
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
    def scores_zero(self) -> bool:
        """Whether the run ended in a way that scores nothing."""
        return self.track is not None and self.end_reason in self.track.rules["void_reasons"]

    def verdicts(self) -> list[Verdict]:
        """Of all trials, as if the run ended here."""
        return [verdict for session in self.sessions for verdict in session.verdicts()]

    def refusals(self) -> list[Refusal]:
        return [refusal for session in self.sessions for refusal in session.referee.refusals]

    def result(self) -> dict[str, Any]:
        """The score as if the run ended here: what `bci-judge score --json` prints.

        The score of a session that is void is None; `void` is there if all of them are.
        """
        track = self._known_track()
        sessions = [self._session_result(track, session) for session in self.sessions]
        scores = [session["score"] for session in sessions if session["score"] is not None]
        return {
            "track": track.name,
            "team": self.team,
            "score": mean(scores),
            "unit": track.unit,
            "end": self.end_reason,
            **({"void": True} if sessions and not scores else {}),
            "sessions": sessions,
        }

    def standing(self) -> RunStanding:
        """The totals so far, of trials that are over and may be shown."""
        track, tally = self._known_track(), self._tally
        scores = [session.score(track) for session in self.sessions]
        return RunStanding(
            subject=str(self.sessions[-1].subject) if self.sessions else "",
            score=0.0 if self.scores_zero else mean([s for s in scores if s is not None]),
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
        verdicts = session.verdicts()
        counted = [verdict for verdict in verdicts if verdict.scored]
        parts = sum(verdict.void_parts for verdict in verdicts)
        return {
            "subject": session.subject,
            "score": 0.0 if self.scores_zero else score_by(track.score, verdicts),
            "trials": len(counted),
            "right": sum(flag for verdict in counted for flag in verdict.right),
            "answers": sum(len(verdict.right) for verdict in counted),
            "refused": session.referee.refusals.total,
            "void": sum(verdict.void for verdict in verdicts),
            **({f"void_{track.parts}": parts} if track.parts else {}),
        }

    def _run(self, event: Event) -> list[Verdict]:
        if self.track is not None:
            raise RuleError("a second run line: a log holds one run")
        if event.get("v", 1) not in LOG_VERSIONS:
            raise RuleError(f"log version {event['v']!r}: this judge reads versions 1 and 2")
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
        for line in self._void_lines.get(len(self.sessions), []):
            referee.voids.add(line)
        self.sessions.append(SessionState(len(self.sessions), subject, referee))
        return given

    def _truth(self, event: Event) -> list[Verdict]:
        self.has_truth = self.has_truth or any(name in event for name in TRUTH_FIELDS)
        session = self._current("truth")
        return self._give(session, session.referee.truth(event))

    def _packet(self, event: Event) -> list[Verdict]:
        session = self._current("packet")
        return self._give(session, session.referee.packet(event))

    def _report(self, event: Event) -> list[Verdict]:
        session = self._current("report")
        return self._give(session, session.referee.report(event))

    def _outage(self, event: Event) -> list[Verdict]:
        number, outage = read_outage(event)
        if self._known_track().rules.get("outage") == "stand":
            return []
        return self._add_void(number, outage)

    def _void(self, event: Event) -> list[Verdict]:
        return self._add_void(*read_void(event))

    def _add_void(self, number: int, line: Outage | VoidDecision) -> list[Verdict]:
        """A line may stand anywhere in the log, before its session too."""
        self._void_lines.setdefault(number, []).append(line)
        if not 0 <= number < len(self.sessions):
            return []
        session = self.sessions[number]
        session.referee.voids.add(line)
        return self._give(session, session.judged_again())

    def _end(self, event: Event) -> list[Verdict]:
        self.end_reason = str(event_field(event, "reason"))
        return self._close()

    def _close(self) -> list[Verdict]:
        """Close the current session; returns the verdicts that were not given yet."""
        if not self.sessions:
            return []
        session = self.sessions[-1]
        session.close()
        return self._give(session, session.referee.verdicts())

    def _give(self, session: SessionState, verdicts: list[Verdict]) -> list[Verdict]:
        if not verdicts:
            return []
        before = len(session.given)
        new = session.give(verdicts)
        to_add = new
        if len(session.given) != before + len(new):  # some are revised
            self._tally = Tally()
            to_add = [verdict for each in self.sessions for verdict in each.given]
        for verdict in to_add:
            self._tally.add(verdict, self._known_track().used_unit)
        return new

    def _current(self, kind: str) -> SessionState:
        if not self.sessions:
            raise RuleError(f"a {kind} line before any session line")
        return self.sessions[-1]

    def _known_track(self) -> Track:
        if self.track is None:
            raise RuleError("no run line yet")
        return self.track
