"""A team's run: its messages and the replay's packets in, the run log and its verdicts out.

Every event is written before it is judged, and synced before its verdict is shown.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bci_stream.contest.contest import Limits
from bci_stream.judge.ordering import Inbox, LockstepOrder, LoggedEvent, Order, PacketReceived
from bci_stream.runlog import RunLog
from bci_stream.wire.messages import (
    Done,
    PacketNote,
    PacketRequest,
    ReportMessage,
    Status,
    TruthNote,
)
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.run import Run


@dataclass
class PlannedSession:
    """One session: what its log line says, and its truth, by the packet before which it is written."""

    subject: str
    rate: float
    leads: int
    packet_samples: int
    n_samples: int | None
    truth: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        rate = int(self.rate) if self.rate == int(self.rate) else self.rate
        return {
            "kind": "session",
            "subject": self.subject,
            "rate": rate,
            "leads": self.leads,
            "packet_samples": self.packet_samples,
        }


class SessionPlan:
    """Sessions by number; truth comes all at once (recordings) or a trial at a time (live)."""

    def __init__(self) -> None:
        self._cases: dict[int, PlannedSession] = {}

    def add(self, note: TruthNote) -> None:
        case = self._cases.get(note.session)
        if case is None:
            case = self._cases[note.session] = PlannedSession(
                note.subject, note.rate, note.leads, note.packet_samples, note.n_samples
            )
        if note.event is not None:
            case.truth.append((note.packet, note.event))

    def case(self, session: int) -> PlannedSession:
        return self._cases[session]

    def sessions(self) -> Iterator[int]:
        return iter(sorted(self._cases))

    def knows(self, session: int) -> bool:
        return session in self._cases

    def n_samples(self) -> int | None:
        """Of all sessions; None where a device is live."""
        lengths = [case.n_samples for case in self._cases.values()]
        return None if None in lengths else sum(n for n in lengths if n is not None)

    def duration_s(self) -> float | None:
        """How much data there is; None where a device is live."""
        seconds = 0.0
        for case in self._cases.values():
            if case.n_samples is None:
                return None
            seconds += case.n_samples / case.rate
        return seconds


Show = Callable[[dict[str, Any], list[Verdict], Run], None]

STRAGGLER_S = 2.0
"""A team may be done before the replay's last notes have reached the judge; they are waited for this long."""

END_REASONS = ("finished", "timeout", "crashed", "disqualified", "stopped")


class TeamRun:
    """One team on one run of a replay."""

    def __init__(
        self,
        team: str,
        track: str,
        rules: dict[str, Any],
        limits: Limits,
        docket: SessionPlan,
        order: Order,
        log: RunLog,
        begun: float,
        show: Show = lambda *_: None,
        past: Sequence[dict[str, Any]] = (),
        **facts: object,
    ) -> None:
        """past: what is in the log already, where the judge was started again in mid-run."""
        self.team = team
        self.run = Run()
        self.ended: str | None = None
        self.detail = ""
        self.why: Reason | None = None
        self.heard_at = begun
        self._limits = limits
        self._docket = docket
        self._order = order
        self._log = log
        self.inbox = Inbox(taken(past, order))
        self._begun = begun
        self._show = show
        self._shown: list[tuple[dict[str, Any], list[Verdict]]] = []
        self._session = -1
        self._truth_written = 0
        self._finish_seen = False
        self._listened_from = 0.0
        self._asked_at: float | None = begun  # None: nobody knows
        self._asked = False
        self._turn_began: float | None = None
        self._resumed_at: float | None = None
        self._leaving: tuple[str, str | Reason, float] | None = None
        self.compute_s = 0.0
        if past:
            self._remember(past)
        else:
            run = {"kind": "run", "v": 1, "track": track, "team": team, "rules": rules, **facts}
            self._write(run, begun)

    def _remember(self, past: Sequence[dict[str, Any]]) -> None:
        """Take up a log where it ends; nothing of it is written or measured again."""
        if isinstance(self._order, LockstepOrder):
            self._resumed_at = self._begun
            self.compute_s = _computed_s(past)
        else:
            self._listened_from = self._begun  # of a report before it nobody knows when it came
        self._asked_at = None
        for event in past:
            self._shown.append((event, self.run.feed(event)))
            if event["kind"] == "session":
                self._session += 1
                self._truth_written = 0
            self._truth_written += event["kind"] == "truth"
            self._finish_seen = self._finish_seen or bool(event.get("finish"))
        self._begun -= float(past[-1].get("t", 0.0))
        self.ended = self.run.end_reason
        self._publish()
        if self.ended is not None:
            self._log.close()

    @property
    def path(self) -> Path:
        return self._log.path

    # --- what arrives -------------------------------------------------------------------------

    def note(self, note: PacketNote, stamp: float) -> None:
        if self.ended is None:
            self._order.note(note, stamp)

    def message(self, message: PacketRequest | ReportMessage | Done, at: float) -> None:
        """What the team says, in the order in which it says it."""
        if self.ended is None:
            self.heard_at = at
            self.inbox.put(message, at)

    def _handle(self, message: PacketRequest | ReportMessage | Done, at: float) -> None:
        self._measure_turn(message, at)
        if isinstance(message, Done):
            self.leave(message.reason, message.detail, at)
        else:
            self._order.message(message, at)

    def remark(self, status: Status, at: float) -> None:
        """What happened to the source stands in the log; no rule reads it."""
        if self.ended is None and self._session >= 0:
            self._write({"kind": "status", "state": status.state, "detail": status.detail}, at)

    def leave(self, reason: str, detail: str | Reason, at: float) -> None:
        """The team has ended; its run does once the last packets' notes have come, too."""
        if self._leaving is None:
            self._leaving = (reason, detail, at)

    def settle(self, now: float) -> None:
        """Write what has become certain; show it once it is on the disk."""
        if self.ended is not None:
            return
        for message, at in self.inbox.take(now):
            self._handle(message, at)
        self._take(self._order.settled(now))
        if self._over_limit(now):
            self.end("timeout", self._limit_exceeded(now), now)
        elif self._leaving is not None and self._has_left(now):
            self.end(*self._leaving)
        if self._shown:
            self._publish()

    def _has_left(self, now: float) -> bool:
        assert self._leaving is not None
        reason, _, at = self._leaving
        complete = self._order.idle() and (self._finish_seen or reason != "finished")
        return complete or now - at > STRAGGLER_S

    def stop(self, why: Reason, at: float) -> None:
        """The replay has ended: what the team said of its own end before that still holds."""
        if self.ended is None:
            for message, said_at in self.inbox.take(at):
                self._handle(message, said_at)
            self.end(*(self._leaving or ("stopped", why, at)))

    def end(self, reason: str, detail: str | Reason, at: float) -> None:
        """The run is over; sessions that never began are written too, since what is missing is wrong."""
        if self.ended is not None:
            return
        self._take(self._order.rest())
        reason = reason if reason in END_REASONS else "crashed"
        if reason == "finished" and not self._finish_seen:
            reason, detail = "stopped", detail or Reason("left_early")
        for session in self._docket.sessions():
            if session > self._session:
                self._begin_session(session, at)
        self._write_truth(None, at)
        self.ended = reason
        self.why = detail if isinstance(detail, Reason) else None
        self.detail = describe(detail)
        end: dict[str, Any] = {"kind": "end", "reason": reason}
        if self.detail:
            end["detail"] = self.detail
        if self.why is not None:
            end["why"] = self.why.to_json()
        self._write({**end, "compute_s": round(self.compute_s, 3)}, at)
        self._publish()
        self._log.close()

    # --- compute time, which only the judge measures ------------------------------------------

    def _measure_turn(self, message: PacketRequest | ReportMessage | Done, at: float) -> None:
        """Lockstep: from a packet's request to the next request, the decoder is at work."""
        if isinstance(message, PacketRequest | Done):
            if self._turn_began is not None:
                self.compute_s += at - self._turn_began
            self._turn_began = at

    def limit_s(self) -> float | None:
        data_s = self._docket.duration_s()
        if data_s is None:
            return None
        return self._limits.compute_factor * data_s + self._limits.compute_extra_s

    def _over_limit(self, now: float) -> bool:
        if self._turn_began is None and self._resumed_at is None:
            return False  # real time has no turns
        if self._silent_s(now) > self._limits.silence_s:
            return True
        limit_s = self.limit_s()
        if self._turn_began is None or limit_s is None:
            return False
        return self.compute_s + self._silent_s(now) > limit_s

    def _silent_s(self, now: float) -> float:
        """How long the team has been at its turn; after a restart of the judge, how long since then."""
        since = self._resumed_at if self._turn_began is None else self._turn_began
        return 0.0 if since is None or self._leaving is not None else now - since

    def _limit_exceeded(self, now: float) -> Reason:
        silent_s = self._silent_s(now)
        if silent_s > self._limits.silence_s:
            return Reason("silent", silent_s=silent_s, limit_s=self._limits.silence_s)
        return Reason(
            "over_compute_limit",
            used_s=self.compute_s + silent_s,
            data_s=self._docket.duration_s() or 0.0,
            limit_s=self.limit_s() or 0.0,
        )

    # --- writing ------------------------------------------------------------------------------

    def _take(self, happenings: Iterable[LoggedEvent]) -> None:
        for happening in happenings:
            if isinstance(happening, PacketReceived):
                self._receive(happening.note, happening.at)
            elif self._session >= 0 or self._docket.knows(0):
                # Within the grace of the very first packet: logged all the same, and refused by the rules.
                if self._session < 0:
                    self._begin_session(0, happening.at)
                self._report(happening.result, happening.at)

    def _receive(self, note: PacketNote, at: float) -> None:
        for session in range(self._session + 1, note.session + 1):
            self._begin_session(session, at)
        self._write_truth(note.i, at)
        self._finish_seen = self._finish_seen or note.finish
        triggers = [list(trigger) for trigger in note.triggers]
        packet: dict[str, Any] = {
            "kind": "packet",
            "start": note.start,
            "n": note.n,
            "triggers": triggers,
        }
        self._write({**packet, "finish": True} if note.finish else packet, at)
        # Emotion asks for a decision each second, and its limit counts from there; the other tracks
        # have no such moment, so there the last packet is what a report's latency is measured from.
        if self.run.asks or not self._asked:
            self._asked_at = at if at >= self._listened_from else None
            self._asked = self.run.asks

    def _report(self, result: object, at: float) -> None:
        event = {"kind": "report", "result": result}
        if self._asked_at is not None:
            event["elapsed_s"] = round(max(0.0, at - self._asked_at), 6)
        self._write(event, at)

    def _begin_session(self, session: int, at: float) -> None:
        self._write_truth(None, at)
        self._session = session
        self._truth_written = 0
        self._write(self._docket.case(session).line(), at)

    def _write_truth(self, packet: int | None, at: float) -> None:
        """Truth of the session that is known by this packet; None: all of it."""
        if self._session < 0:
            return
        truth = self._docket.case(self._session).truth
        while self._truth_written < len(truth):
            before, event = truth[self._truth_written]
            if packet is not None and before > packet:
                return
            self._truth_written += 1
            self._write({"kind": "truth", **event}, at)

    def _write(self, event: dict[str, Any], at: float) -> None:
        event["t"] = round(at - self._begun, 6)
        self._log.write(event)
        self._shown.append((event, self.run.feed(event)))

    def _publish(self) -> None:
        if any(verdicts for _, verdicts in self._shown):
            self._log.sync()
        for event, verdicts in self._shown:
            self._show(event, verdicts, self.run)
        self._shown.clear()


def _computed_s(past: Sequence[dict[str, Any]]) -> float:
    """Lockstep: a packet is asked for when the one before it is done with."""
    asked = [float(event["t"]) for event in past if event["kind"] == "packet"]
    return asked[-1] - asked[0] if asked else 0.0


def taken(past: Sequence[dict[str, Any]], order: Order) -> int:
    """How many of the team's numbered messages a log holds: in lockstep it asked for each packet."""
    kinds = ("report", "packet") if isinstance(order, LockstepOrder) else ("report",)
    return sum(event["kind"] in kinds for event in past)
