"""One team on one run: folds the run's events into the run log and its verdicts.

A verdict is published once its events are on disk. Reports and decisions are given to the operating system
as they are folded; packets alone, which the replay sends again to a restarted judge, a few times a second.
The log of a run that has ended is sealed: its last line holds the head of the hash chain, signed.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bci_stream.amendments import Seal, amend_log, void_line
from bci_stream.contest.contest import Limits
from bci_stream.judge.session.limits import ComputeTime, MessageQuota
from bci_stream.judge.session.ordering import (
    NumberedMessage,
    PacketReceived,
    RealtimeOrder,
    ReportReceived,
    RunEvent,
)
from bci_stream.judge.session.outages import PacketOutage, PacketPlaces
from bci_stream.judge.session.plan import SessionPlan
from bci_stream.runlog import LOG_VERSION, RunLog
from bci_stream.wire.messages import PacketNote, Status
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.run import Run

Publish = Callable[[dict[str, Any], list[Verdict], Run], None]

LAST_NOTES_S = 2.0
"""A team may be done before the replay's last notes have reached the judge; how long those may take."""

FLUSH_EVERY_S = 0.25
"""How long packets may stay in memory before they are written, while there is nothing else to write."""

FORFEIT, READMIT = "forfeit", "readmit"
"""States of `status` lines: whether the team's reports count."""

END_REASONS = ("finished", "timeout", "crashed", "disqualified", "stopped")


class TeamRun:
    """Folds packets, reports and the team's end; enforces the limits on compute and silence.

    order: settles the order of events in real time; None in lockstep, where events come in order.
    compute: the compute time that the team has used in lockstep.
    in_log: lockstep: how many of the replay's packets and reports are in the log already.
    head, lines: of a run that has ended: `h` of the log's `end` line, and its number. Empty and 0 before
    that; `head` is also empty in a log of version 1, which an earlier version of the judge began.
    forfeited: why the team's reports do not count at present; None if they do.
    """

    def __init__(
        self,
        team: str,
        track: str,
        rules: dict[str, Any],
        limits: Limits,
        plan: SessionPlan,
        log: RunLog,
        begun: float,
        *,
        order: RealtimeOrder | None = None,
        publish: Publish = lambda *_: None,
        past: Sequence[dict[str, Any]] = (),
        seal: Seal | None = None,
        **facts: object,
    ) -> None:
        """past: the events that are in the log already, after a restart of the judge in mid-run.

        seal: None leaves the log without a seal. facts: more fields of the run line.
        """
        self.team = team
        self.run = Run()
        self.ended: str | None = None
        self.detail = ""
        self.why: Reason | None = None
        self.order = order
        self.in_log = sum(event["kind"] in ("packet", "report") for event in past)
        self._quota = MessageQuota(limits)
        self._places = PacketPlaces()
        self._outages: list[PacketOutage] = []
        self.compute = ComputeTime(limits, plan)
        self._plan = plan
        self._log = log
        self._seal = seal
        self.head = ""
        self.lines = 0
        self._t = 0.0
        self._zero: float | None = begun  # when `t` was 0; None: set by the next event
        self._publish_event = publish
        self._unpublished: list[tuple[dict[str, Any], list[Verdict]]] = []
        self._flushed_at = begun
        self._session = -1
        self._data_s = 0.0  # received since this judge began
        self._truth_written = 0
        self._finish_seen = False
        self._arrivals_from = 0.0
        self._asked_at: float | None = begun  # None: unknown
        self._asked = False
        self._leaving: tuple[str, str | Reason, float] | None = None
        self.forfeited: str | None = None
        self.reports_ignored = 0
        if past:
            self._resume(past, begun)
        else:
            run = {"kind": "run", "v": LOG_VERSION, "track": track, "team": team, "rules": rules}
            self._write({**run, **facts}, begun)

    def _resume(self, past: Sequence[dict[str, Any]], begun: float) -> None:
        """Continue a log at its end; nothing of it is written or measured again."""
        if self.order is None:
            self.compute.resume(past, begun)
        else:
            self._arrivals_from = begun  # earlier reports have no known arrival time
        self._asked_at = None
        for event in past:
            self._unpublished.append((event, self.run.feed(event)))
            if event["kind"] == "session":
                self._session += 1
                self._truth_written = 0
            self._truth_written += event["kind"] == "truth"
            if event["kind"] == "packet":
                self._places.add(self._session, event.get("i"))
            self._finish_seen = self._finish_seen or bool(event.get("finish"))
            if event["kind"] == "status" and event.get("state") in (FORFEIT, READMIT):
                detail = str(event.get("detail", ""))
                self.forfeited = detail if event["state"] == FORFEIT else None
        # The next event may have come before this judge was started: `t` goes on where the log ends.
        self._t = max(float(event.get("t", 0.0)) for event in past)
        self._zero = None
        self.ended = self.run.end_reason
        self._publish()
        if self.ended is not None:
            self._close_log(past)

    @property
    def path(self) -> Path:
        return self._log.path

    # --- events -------------------------------------------------------------------------------

    def fold(self, event: RunEvent) -> None:
        """The next event of the run, in its final order."""
        if self.ended is not None:
            return
        if isinstance(event, PacketReceived):
            self._end_turn(event.at)
            self._receive(event.note, event.at)
        elif isinstance(event, ReportReceived) and self.forfeited is not None:
            self.reports_ignored += 1
        elif isinstance(event, ReportReceived):
            self._report(event)
        else:
            self._end_turn(event.at)
            self.leave(event.reason, event.detail, event.at)

    def receive(self, message: NumberedMessage, text: str, at: float) -> None:
        """Real time: a message of the team that arrived at this time; `settle` folds it in its order.

        Of a run that has ended nothing is kept: a team may send on.
        """
        if self.ended is None:
            self.count_message(len(text), at)
        if self.ended is None and self.order is not None:
            self.order.messages.put(message, at, text)

    def add_status(self, status: Status, at: float) -> None:
        """Log what happened to the source (a gap, a reconnect); no rule reads it."""
        if self.ended is None and self._session >= 0:
            self._write({"kind": "status", "state": status.state, "detail": status.detail}, at)

    def pass_over(self) -> bool:
        """Lockstep: whether the next packet or report of the replay's list is in the log already."""
        self.in_log -= 1
        return self.in_log >= 0

    def count_message(self, length: int, at: float) -> None:
        """Count a message of this many characters; too many of them end the run as disqualified."""
        exceeded = self._quota.add(length, self._data_s, self._places.count)
        if exceeded is not None:
            self.end("disqualified", exceeded, at)

    def add_outage(self, outage: PacketOutage, at: float) -> None:
        """A fault of the organiser's side; it is logged once the last of its packets is."""
        self._outages.append(outage)
        self._write_outages(at)

    @property
    def is_leaving(self) -> bool:
        """Whether the team has ended its run, and the run waits for the last packets' notes."""
        return self._leaving is not None

    def abandon(self) -> None:
        """Close the log without an end, so that a restarted judge continues it."""
        self._log.close()

    def leave(self, reason: str, detail: str | Reason, at: float) -> None:
        """The team has ended; its run ends once the last packets' notes have arrived, too."""
        if self._leaving is None:
            self._leaving = (reason, detail, at)

    def settle(self, now: float, read_to: float | None = None) -> None:
        """Fold what has become certain, enforce the limits, and publish what is on disk.

        read_to: every message that arrived before this time is here; by default `now`.
        """
        if self.ended is not None:
            return
        self._fold_settled(now if read_to is None else read_to)
        exceeded = self.compute.exceeded(now, has_left=self.is_leaving)
        if exceeded is not None:
            self.end("timeout", exceeded, now)
        elif self._leaving is not None and self._has_left(now):
            self.end(*self._leaving)
        if self._unpublished:
            self._publish()
        if now - self._flushed_at >= FLUSH_EVERY_S:
            self._flushed_at = now
            self._log.flush()

    def _fold_settled(self, read_to: float) -> None:
        if self.order is not None:
            for event in self.order.settled(read_to):
                self.fold(event)

    def _has_left(self, now: float) -> bool:
        assert self._leaving is not None
        reason, _, at = self._leaving
        idle = self.order is None or self.order.is_idle()
        complete = idle and (self._finish_seen or reason != "finished")
        return complete or now - at > LAST_NOTES_S

    def stop(self, why: Reason, at: float) -> None:
        """The replay has ended; if the team had ended before that, its own reason holds."""
        if self.ended is None:
            self._fold_settled(at)
            self.end(*(self._leaving or ("stopped", why, at)))

    def end(self, reason: str, detail: str | Reason, at: float) -> None:
        """End the run and close its log; sessions that never began are logged, since they score 0."""
        if self.ended is not None:
            return
        for event in self.order.rest() if self.order is not None else ():
            self.fold(event)
        self._write_outages(at, ending=True)
        reason = reason if reason in END_REASONS else "crashed"
        if self.forfeited is not None and reason not in ("disqualified", "timeout"):
            reason, detail = "stopped", Reason("forfeited", reason=self.forfeited)
        if reason == "finished" and not self._finish_seen:
            reason, detail = "stopped", detail or Reason("left_early")
        for session in sorted(self._plan):
            if session > self._session:
                self._begin_session(session, at)
        self._write_truth(None, at)
        self.ended = reason
        self.why = detail if isinstance(detail, Reason) else None
        self.detail = describe(detail)
        self._write({**self._end_line(), "compute_s": round(self.compute.used_s, 3)}, at)
        self._publish()
        self._close_log(())

    def _end_line(self) -> dict[str, Any]:
        end: dict[str, Any] = {"kind": "end", "reason": self.ended}
        if self.detail:
            end["detail"] = self.detail
        if self.why is not None:
            end["why"] = self.why.to_json()
        return end

    # --- the operator's decisions ---------------------------------------------------------------

    def forfeit(self, reason: str, at: float) -> None:
        """Ignore the team's reports from now on; in lockstep, where its packets wait for it, end the run."""
        self.forfeited = reason
        if self.ended is None:
            self._note_decision(FORFEIT, reason, at)
            if self.order is None:
                self.end("stopped", "", at)

    def readmit(self, at: float) -> None:
        """Take the team's reports again."""
        self.forfeited = None
        self._note_decision(READMIT, "", at)

    def disqualify(self, why: Reason, at: float) -> None:
        """End the run as disqualified, also one that is over."""
        if self.ended is None:
            self.end("disqualified", why, at)
            return
        self.ended, self.why, self.detail = "disqualified", why, describe(why)
        self._amend(self._end_line())

    def void_line(self, session: int, block: int, trial: int | None, reason: str) -> dict[str, Any]:
        """The line that `void` writes; raises ContestError if there is no such block or trial."""
        return void_line(self.run, session, block, trial, reason)

    def note(self, state: str, detail: str, at: float) -> None:
        """Log what the operator did to all runs; no rule reads it."""
        if self.ended is None:
            self._note_decision(state, detail, at)

    def void(
        self,
        session: int,
        block: int,
        trial: int | None,
        reason: str,
        at: float,
        *,
        again: bool = False,
    ) -> None:
        """Void a trial or a block, counted from 1; raises ContestError if there is none such.

        again: the block is played again.
        """
        line = self.void_line(session, block, trial, reason)
        if again:
            line["again"] = True
        if self.ended is not None:
            self._amend(line)
            return
        self._write(line, at)
        self._publish()

    def hold(self, at: float) -> None:
        """The operator has paused the run: the time from now on is not the team's."""
        self._end_turn(at)
        self.compute.hold()

    def release(self, at: float) -> None:
        """The run goes on; the packet that the team has asked for meanwhile costs it no compute time."""
        if self.order is None:
            self.compute.release(at)

    def _end_turn(self, at: float) -> None:
        """In lockstep the decoder has been at work since the packet before."""
        if self.order is None:
            self.compute.end_turn(at)

    def _note_decision(self, state: str, detail: str, at: float) -> None:
        self._write({"kind": "status", "state": state, "detail": detail}, at)
        self._publish()

    def _amend(self, line: dict[str, Any]) -> None:
        """Add a line to the log of a run that is over, with a new seal; `head` stays the receipt's."""
        line["t"] = self._t
        amend_log(self.path, [line], self._seal)
        self._publish_event(line, self.run.feed(line), self.run)

    # --- writing ------------------------------------------------------------------------------

    def _receive(self, note: PacketNote, at: float) -> None:
        for session in range(self._session + 1, note.session + 1):
            self._begin_session(session, at)
        self._write_truth(note.i, at)
        self._finish_seen = self._finish_seen or note.finish
        self._data_s += note.n / self._plan[note.session].rate
        triggers = [list(trigger) for trigger in note.triggers]
        packet: dict[str, Any] = {
            "kind": "packet",
            "start": note.start,
            "n": note.n,
            "triggers": triggers,
            "i": note.i,
        }
        self._places.add(note.session, note.i)
        self._write({**packet, "finish": True} if note.finish else packet, at)
        if self._outages:
            self._write_outages(at)
        # A report's latency counts from the moment at which the track asks for a decision (emotion: each
        # second); on tracks without such a moment, from the last packet.
        if self.run.decision_due or not self._asked:
            self._asked_at = at if at >= self._arrivals_from else None
            self._asked = self.run.decision_due

    def _report(self, report: ReportReceived) -> None:
        at = report.at
        if self._session < 0:
            if 0 not in self._plan:
                return
            self._begin_session(0, at)  # within the grace of the first packet; the rules refuse it
        event: dict[str, Any] = {"kind": "report", "result": report.result}
        if report.n >= 0:
            event["n"] = report.n
        if self._asked_at is not None:
            event["elapsed_s"] = round(max(0.0, at - self._asked_at), 6)
        if report.text:
            event["message"] = report.text
        self._write(event, at)

    def _write_outages(self, at: float, *, ending: bool = False) -> None:
        """Write the outages whose last packet is in the log; ending: all of them."""
        waiting, self._outages = self._outages, []
        for outage in waiting if self.ended is None else ():
            if outage.last >= self._places.next_number and not ending:
                self._outages.append(outage)
                continue
            for session, first, last in self._places.between(outage.first, outage.last):
                cause = describe(outage.cause)
                line = {"kind": "outage", "session": session, "from": first, "to": last}
                self._write({**line, "cause": cause, "why": outage.cause.to_json()}, at)

    def _begin_session(self, session: int, at: float) -> None:
        self._write_truth(None, at)
        self._session = session
        self._truth_written = 0
        self._write(self._plan[session].log_line(), at)

    def _write_truth(self, packet: int | None, at: float) -> None:
        """Write the session's truth that is known by this packet; None: all of it."""
        if self._session < 0:
            return
        truth = self._plan[self._session].truth
        while self._truth_written < len(truth):
            before, event = truth[self._truth_written]
            if packet is not None and before > packet:
                return
            self._truth_written += 1
            self._write({"kind": "truth", **event}, at)

    def _write(self, event: dict[str, Any], at: float) -> None:
        if self._zero is None:
            self._zero = at - self._t
        self._t = event["t"] = max(self._t, round(at - self._zero, 6))
        self._log.write(event)
        self._unpublished.append((event, self.run.feed(event)))

    def _publish(self) -> None:
        if any(verdicts for _, verdicts in self._unpublished):
            self._log.sync()
        elif any(event["kind"] != "packet" for event, _ in self._unpublished):
            self._log.flush()
        for event, verdicts in self._unpublished:
            self._publish_event(event, verdicts, self.run)
        self._unpublished.clear()

    def _close_log(self, past: Sequence[dict[str, Any]]) -> None:
        """Seal and close the log of a run that has ended; past: its lines, if an earlier judge ended it."""
        self.head, self.lines = self._log.head, self._log.lines
        is_sealed = bool(past) and past[-1]["kind"] == "seal"
        if self._seal is not None and self.head and not is_sealed:
            self._log.write_object(self._seal(self.head, self.lines).encode())
        self._log.close()
        seal = next((event for event in past if event["kind"] == "seal"), None)
        if seal is not None:  # amendments stand behind the first seal, which is the receipt's
            self.head, self.lines = str(seal["head"]), int(seal["lines"])
