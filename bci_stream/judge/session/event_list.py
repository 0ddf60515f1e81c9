"""Folds the event list of a replay, which its sealed stream carries, into the teams' runs."""

from bci_stream.judge.session.before_start import TeamsBeforeStart
from bci_stream.judge.session.block_requests import BlockRequests
from bci_stream.judge.session.catch_up import CatchUp
from bci_stream.judge.session.ordering import PacketReceived, message_event
from bci_stream.judge.session.sink import Sink
from bci_stream.judge.session.team_runs import TeamRuns
from bci_stream.stream_health import LinkHealth
from bci_stream.wire.messages import (
    Done,
    PacketEvent,
    ReportMessage,
    RunEvents,
    StallEvent,
    TeamMessageEvent,
)
from bci_stream.wire.verify import MessageVerifier
from tracks.common.reasons import Reason


class EventList:
    """The events of one replay so far: packets sent, stalls and, in lockstep, messages received.

    has_begun: the run has; its first packet has been sent. repeats: blocks that are to be played again.
    """

    def __init__(
        self,
        runs: TeamRuns,
        waiting: TeamsBeforeStart,
        catch_up: CatchUp,
        verifier: MessageVerifier,
        health: LinkHealth,
        sink: Sink,
    ) -> None:
        self._runs = runs
        self._waiting = waiting
        self._catch_up = catch_up
        self._verifier = verifier
        self._health = health
        self._sink = sink
        self.has_begun = False
        self.repeats = BlockRequests()
        self._next = 0

    def add(
        self, message: RunEvents, arrived: float, offset_s: float, *, truth_complete: bool
    ) -> None:
        """Fold the events that are new; if some are missing, the judge must catch up.

        arrived: at the judge. offset_s: what must be added to the replay's times to get the judge's.
        truth_complete: the replay has sent its truth to this judge, as it does before it plays.
        """
        if not message.events:
            return
        if not truth_complete or (message.first > 0 and not self.has_begun):
            # The run began under a judge that died before it had begun a log.
            self._catch_up.begin_after_start()
            if not truth_complete:
                return
        self._begin()
        if message.first > self._next:
            self._catch_up.begin()
            return
        for event in message.events[self._next - message.first :]:
            self._next += 1
            if isinstance(event, StallEvent):
                self._runs.add_fault(event.since, event.at, "outage_replay")
            elif self._runs.lockstep:
                self._fold(message.team, event, event.at + offset_s)
            elif isinstance(event, PacketEvent):
                self._order(event, offset_s, None if self._catch_up.is_active else arrived)

    def _begin(self) -> None:
        """Open the run of every team that is ready."""
        if self.has_begun:
            return
        self.has_begun = True
        welcomed = self._waiting.welcomed if self._catch_up.missed_start else set()
        welcomed = {team for team in welcomed if not self._waiting.is_kept_out(team)}
        for team in sorted(self._waiting.ready | welcomed):
            self._runs.open(team)

    def _fold(self, team: str, event: PacketEvent | TeamMessageEvent, at: float) -> None:
        """Lockstep: an event of the only team; a restarted judge passes over those that are in its log."""
        team_run = self._runs.by_team.get(team)
        if team_run is None:
            return
        if isinstance(event, PacketEvent):
            self._note_packet(event, at, at, None)
            if not team_run.pass_over():
                team_run.fold(PacketReceived(event.note, at))
            return
        message = self._verifier.verify(event.text)
        if isinstance(message, ReportMessage | Done) and message.team == team_run.team:
            if isinstance(message, ReportMessage) and team_run.pass_over():
                return
            team_run.count_message(len(event.text), at)
            team_run.fold(message_event(message, at, event.text))

    def _order(self, event: PacketEvent, offset_s: float, arrived: float | None) -> None:
        """Real time: a packet counts from when it left, not from when it was due."""
        left = event.at + offset_s
        self._note_packet(event, event.stamp + offset_s, left, arrived)
        self._runs.order_packet(event.note, left)

    def _note_packet(
        self, event: PacketEvent, due: float, left: float, arrived: float | None
    ) -> None:
        self._catch_up.add_packet(left)
        self._health.add_packet(due, left, arrived)
        for session, block in self.repeats.add_packet(event.note):
            why = Reason("block_not_repeated", block=block + 1, session=session + 1)
            self._sink.alarm(why)
        self._runs.add_packet(event.note, due, left, arrived)
