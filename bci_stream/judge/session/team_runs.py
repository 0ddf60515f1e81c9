"""The runs of one replay's teams: opens and continues their logs, settles them, and ends them."""

import math
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any

from bci_stream.amendments import log_seal
from bci_stream.contest.contest import Contest
from bci_stream.judge.session.ordering import RealtimeOrder
from bci_stream.judge.session.outages import OutageTracker
from bci_stream.judge.session.plan import SessionPlan, total_samples
from bci_stream.judge.session.sink import Sink
from bci_stream.judge.session.team_run import TeamRun
from bci_stream.runlog import RunLog, earlier_logs, make_runs_folder
from bci_stream.wire.messages import (
    Closed,
    FromJudge,
    Offer,
    PacketNote,
    ResendResults,
    Status,
)
from tracks.common.reasons import Reason
from tracks.registry import TRACKS

CLOSING_S = 1.5
"""How long `closed` is sent after a run has ended, so that its team receives it and may leave."""


class TeamRuns:
    """Used by `ReplaySession` only, on the judge's thread.

    by_team: the runs that have begun. finished_at: when the replay's last packet was received, or the replay
    had ended; None before that. is_paused: the operator holds the packets back.
    """

    def __init__(
        self, now: Callable[[], float], contest: Contest, run: str, plan: SessionPlan, sink: Sink
    ) -> None:
        self._now = now
        self._contest = contest
        self._run = run
        self._plan = plan
        self._sink = sink
        self._offer: Offer | None = None
        self._track = ""
        self._outages: OutageTracker | None = None
        self.by_team: dict[str, TeamRun] = {}
        self.finished_at: float | None = None
        self.is_paused = False
        self._unseen: set[str] = set()
        self._lost_at: dict[str, float] = {}
        self._closed_at: dict[str, float] = {}
        self._leaving: set[str] = set()

    @property
    def running(self) -> set[str]:
        """Teams whose runs have begun and not ended."""
        return {team for team, run in self.by_team.items() if run.ended is None}

    @property
    def lockstep(self) -> bool:
        return self._offer is not None and self._offer.lockstep

    def all_closed(self, now: float) -> bool:
        """Whether every run has ended, and its team has had the time to receive `closed`."""
        ends = [self._closed_at.get(team, now) for team in self.by_team]
        return bool(ends) and all(now - end > CLOSING_S for end in ends)

    def messages(self, now: float, *, is_catching_up: bool) -> Iterator[FromJudge]:
        """What the judge has to send to teams: that a run is closed, and which messages are missing."""
        contest, run_id = self._contest.name, self._run
        for team in self._closed_at:
            run = self.by_team[team]
            yield Closed(
                contest,
                run_id,
                team=team,
                reason=run.ended or "",
                head=run.head,
                lines=run.lines,
            )
        for team, run in self.by_team.items():
            if run.order is None:
                continue
            messages = run.order.messages
            if is_catching_up or (run.ended is None and messages.is_missing(now)):
                yield ResendResults(contest, run_id, team=team, n=messages.expected)

    # --- opening ------------------------------------------------------------------------------

    def set_offer(self, offer: Offer) -> list[str]:
        """Take track and pace of the replay, and continue the logs that an earlier judge of this run left.

        Returns the messages of the teams that these logs hold.
        """
        messages: list[str] = []
        self._offer, self._track = offer, offer.track
        rules = TRACKS[offer.track].under(self._contest.rules(offer.track))
        if not offer.lockstep or rules.timed:
            self._outages = OutageTracker(self._contest.limits.outage_s, self._grace_s(offer))
        for team, path, events in earlier_logs(self._contest.runs, self._run):
            self.by_team[team] = self._team_run(team, RunLog(path, append=True), events)
            messages += [str(event["message"]) for event in events if "message" in event]
        return messages

    def open(self, team: str) -> TeamRun:
        """The run of a team, which begins with this call if it has not yet."""
        if team not in self.by_team:
            when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            make_runs_folder(self._contest.runs)
            name = f"{self._track}-{team}-{when}-{self._run}.jsonl"
            self.by_team[team] = self._team_run(team, RunLog(self._contest.runs / name), [])
            if self.is_paused:
                self.by_team[team].hold(self._now())
            self._sink.team(team, self._track, "running")
        return self.by_team[team]

    def _team_run(self, team: str, log: RunLog, past: list[dict[str, Any]]) -> TeamRun:
        assert self._offer is not None
        track, title = self._track, self._contest.display_name(team)
        return TeamRun(
            team,
            track,
            self._contest.rules(track),
            self._contest.limits,
            self._plan,
            log,
            self._now(),
            order=None if self._offer.lockstep else self._realtime_order(self._offer, past),
            publish=lambda event, verdicts, run: self._sink.event(
                team, track, event, verdicts, run
            ),
            past=past,
            seal=log_seal(self._contest.keys.signing_key(), self._contest.name, self._run, team),
            pace=self._offer.pace,
            samples=total_samples(self._plan),
            **({"name": title} if title else {}),
        )

    def _realtime_order(self, offer: Offer, past: list[dict[str, Any]]) -> RealtimeOrder:
        packets = [event for event in past if event["kind"] == "packet"]
        reports = [event for event in past if event["kind"] == "report"]
        next_packet = packets[-1].get("i", len(packets) - 1) + 1 if packets else 0
        next_message = reports[-1].get("n", len(reports) - 1) + 1 if reports else 0
        return RealtimeOrder(self._grace_s(offer), next_packet, next_message)

    def _grace_s(self, offer: Offer) -> float:
        return self._contest.limits.grace_packets * offer.packet_s

    # --- packets and outages ------------------------------------------------------------------

    def add_packet(self, note: PacketNote, due: float, left: float, arrived: float | None) -> None:
        """A packet was due and left at these times; arrived: at the judge, None if that is unknown."""
        if self._outages is not None:
            self._outages.add_packet(note.i, due, left, arrived)
        if note.finish:
            self.finished_at = self._now()

    def order_packet(self, note: PacketNote, left: float) -> None:
        """Real time: put a packet into the order of every run."""
        for run in self.by_team.values():
            if run.order is not None and run.ended is None:
                run.order.add_note(note, left)

    def add_fault(self, since: float, until: float, code: str) -> None:
        """A fault of the organiser's side, which may be an outage."""
        if self._outages is not None:
            self._outages.add_fault(since, until, code)

    def add_outages(self, until: float) -> None:
        """Log the outages of faults that were over by this time."""
        for outage in () if self._outages is None else self._outages.take(until):
            self._sink.alarm(outage.cause)
            for run in self.by_team.values():
                run.add_outage(outage, self._now())

    def _add_pending_outages(self, run: TeamRun, now: float) -> None:
        """Log the outages that are not over yet for a team that leaves; the others get them later."""
        if self._outages is None or not run.is_leaving or run.team in self._leaving:
            return
        self._leaving.add(run.team)
        for outage in self._outages.pending():
            run.add_outage(outage, now)

    # --- the teams' streams -------------------------------------------------------------------

    def note_unseen(self, unseen: Collection[str]) -> None:
        """Show the teams whose streams are open and not found as gone, until they are found again."""
        for team in self.by_team.keys() & (self._unseen ^ set(unseen)):
            if self.by_team[team].ended is not None or team in self._lost_at:
                continue
            if team in unseen:
                self._sink.team(team, self._track, "gone", Reason("out_of_sight"))
            else:
                self._sink.team(team, self._track, "running", Reason("returned"))
        self._unseen = set(unseen)

    def note_ready(self, team: str) -> None:
        """A team whose run has begun has sent `ready`: if its stream had ended, it has returned."""
        if self._lost_at.pop(team, None) is not None:
            self._sink.team(team, self._track, "running", Reason("returned"))

    def _lose(self, run: TeamRun, now: float) -> None:
        """A team's stream has ended: it may return, in real time until the last packet."""
        if run.team not in self._lost_at and not run.is_leaving:
            self._sink.team(run.team, self._track, "gone", Reason("stream_lost"))
        lost_at = self._lost_at.setdefault(run.team, now)
        may_return = run.order is not None and self.finished_at is None
        is_late = now - lost_at >= self._contest.limits.return_s
        if run.is_leaving or (is_late and not may_return):
            run.leave("crashed", Reason("stream_lost"), now)

    # --- settling and ending ------------------------------------------------------------------

    def settle(self, gone: Collection[str], now: float, read_to: float) -> None:
        """Fold what has become certain, and end the runs of teams that have left.

        gone: teams whose streams have ended. read_to: messages that arrived before this time are here.
        """
        limit_s = self._contest.limits.silence_s
        if self.finished_at is not None:
            self.add_outages(math.inf)  # before a run ends
        for run in self.by_team.values():
            self._add_pending_outages(run, now)
            run.settle(now, read_to)
            if run.ended is None and run.team in gone:
                self._lose(run, now)
            is_late = self.finished_at is not None and now - self.finished_at > limit_s
            if run.ended is None and is_late:
                run.end("stopped", Reason("did_not_end"), now)
            if run.ended is not None and run.team not in self._closed_at:
                self._closed_at[run.team] = now
                self._sink.team(run.team, self._track, run.ended, run.why or run.detail)

    def add_status(self, status: Status, at: float) -> None:
        """Log and show what happened to the replay's source."""
        for run in self.by_team.values():
            run.add_status(status, at)
            detail = f"{status.state} {status.detail}"
            self._sink.team(run.team, self._track, "running", detail)

    def set_paused(self, paused: bool) -> None:
        """Hold the packets back, or let them go on; no team's time runs meanwhile."""
        self.is_paused = paused
        now = self._now()
        for run in self.by_team.values():
            run.hold(now) if paused else run.release(now)

    def stop(self, why: Reason) -> None:
        """The replay has ended: end every run that has not."""
        now = self._now()
        self.add_outages(math.inf)
        for run in self.by_team.values():
            run.stop(why, now)
        self.finished_at = self.finished_at or now

    def abandon(self) -> None:
        """Close the logs without an end, so that the next judge continues them."""
        for run in self.by_team.values():
            run.abandon()
