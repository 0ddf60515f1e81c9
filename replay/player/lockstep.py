"""Lockstep: a packet is sent when its team requests it.

Texts are the slowest part of a round trip on LSL, so most packets are sent without one: the replay announces
how many of the coming packets have no note, the team then waits for samples alone, and the judge gets the
events in batches.
"""

import math
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from bci_stream.clock import Clock, StallWatch
from bci_stream.errors import BciError, NotFoundError
from bci_stream.packet import column_triggers
from bci_stream.wire.messages import Stopped, UnannouncedPackets
from replay.player.handshake import STOPPED_BY_OPERATOR, HandshakeServer
from replay.player.journal import RunJournal
from replay.player.outlets import ReplayOutlets
from replay.player.plan import PlaybackPlan
from replay.player.repeats import BlockRepeater
from replay.transform.masking import MaskedPacket

MAX_ANNOUNCED = 100
"""Packets announced at once: the bounds of the next four seconds, and nothing of their signal."""

EVENTS_S, REQUEST_S, POLL_S = 0.05, 0.25, 0.2
"""How long events may wait for the judge; how long to wait for a request; how often to check who is there,
and, while packets leave, whether the judge has paused the run."""

FIRST_REQUEST_S = 1800.0
"""How long a team may take to request its first packet, while its decoder starts; submissions have limits of
their own. From the first packet on the judge measures."""


@dataclass
class Lockstep:
    """Plays a plan to one team, as fast as the team requests its packets.

    wait_s: how long to wait for a judge that went away. outage_s: how long this process may stand still
    without that being recorded for the judge. repeats: puts blocks that are played again among the packets.
    """

    outlets: ReplayOutlets
    handshake: HandshakeServer
    journal: RunJournal
    plan: PlaybackPlan
    clock: Clock
    wait_s: float
    stop: threading.Event
    repeats: BlockRepeater
    outage_s: float = math.inf

    def __post_init__(self) -> None:
        self._packet_samples = self.plan.packet_samples
        self._announced = 0
        self._by_request = False
        self._events_sent_at = 0.0
        self._judge_polled_at = 0.0
        self._finished = False
        self._stalls = StallWatch(self.clock.now, self.outage_s)

    def play(self) -> None:
        """Play until the end, until the team has left, or until it is stopped."""
        self.journal.team = next(iter(self.handshake.teams.joined))  # the only one
        self.journal.progress.teams = (self.journal.team,)
        self.journal.begin_session(0)
        with StallWatch(self.clock.now, self.outage_s) as self._stalls:
            self._play_packets()
            self._record_stalls()
        self.journal.send_events()
        if self.stop.is_set():
            self.outlets.send(Stopped("the replay was stopped"))
        elif self.handshake.is_stopped:
            self.outlets.send(Stopped(STOPPED_BY_OPERATOR))
        elif self.handshake.is_closed and not self._finished:
            self.outlets.send(Stopped("the judge has closed the team's run"))

    def _play_packets(self) -> None:
        stamp = self.clock.now()
        following: deque[MaskedPacket] = deque()
        for packet in self.repeats.chain(_look_ahead(self.plan.packets(), following)):
            stamp += packet.n / self.plan.rate
            if not self._wait_for_request():
                return
            self._finished = packet.finish
            packet = self.repeats.settle(packet)
            self.journal.begin_session(packet.session)
            self.journal.send_truth(packet)
            self.journal.push_packet(packet, stamp, with_note=self._announced == 0)
            self._announced = max(0, self._announced - 1)
            self._by_request = self._announced > 0
            self._announce(packet, following)
            self._send_events()

    def _announce(self, last: MaskedPacket, following: deque[MaskedPacket]) -> None:
        """After the last announced packet: announce how many of the next ones have no note."""
        if self._announced or not self.handshake.teams.all_plain():
            return
        for packet in following:
            if not self._needs_no_note(last, packet):
                break
            self._announced += 1
            last = packet
        if self._announced:
            digest = self.outlets.lot_digest(islice(following, self._announced))
            first = self.journal.next_packet
            self.outlets.send(UnannouncedPackets(first, self._announced, digest=digest))

    def _needs_no_note(self, before: MaskedPacket, packet: MaskedPacket) -> bool:
        """Whether everything in the packet's note follows from the packet before it and from its samples."""
        return (
            (packet.session, packet.block, packet.start)
            == (before.session, before.block, before.start + before.n)
            and packet.n == self._packet_samples
            and not packet.finish
            and (not packet.triggers or packet.triggers == column_triggers(packet.samples))
        )

    def _record_stalls(self) -> None:
        for since, at in self._stalls.take():
            self.journal.record_stall(since, at)

    def _send_events(self) -> None:
        self._record_stalls()
        now = self.clock.now()
        if self.journal.unsent_events >= MAX_ANNOUNCED or now - self._events_sent_at > EVENTS_S:
            self._events_sent_at = now
            self.journal.send_events()

    def _wait_for_request(self) -> bool:
        """Wait until the team requests the next packet; False where it has left, or after a stop.

        Raises NotFoundError where the first packet is not requested within FIRST_REQUEST_S.
        """
        polled = waits_since = self.clock.now()
        requested = False
        if polled - self._judge_polled_at > POLL_S:
            self._judge_polled_at = polled
            self.handshake.poll_judge()
            if self.handshake.is_closed:  # what the team would still report counts for nothing
                return False
        while not (self.stop.is_set() or self.handshake.is_stopped):
            if self.handshake.take_return():  # the new worker knows of no announcement
                self._announced, self._by_request, requested = 0, False, False
            if not requested:
                wait_s = EVENTS_S if self.journal.unsent_events else REQUEST_S
                requested = self.handshake.requested(
                    self.journal.next_packet, wait_s, by_request=self._by_request
                )
            if requested and not self.handshake.is_held:
                return True
            now = self.clock.now()
            if self.handshake.is_held:
                waits_since = now
            elif self.journal.next_packet == 0 and now - waits_since > FIRST_REQUEST_S:
                raise NotFoundError(
                    f"team {self.journal.team!r} was ready, and requested no packet within "
                    f"{FIRST_REQUEST_S:g} s; start replay and team again"
                )
            if self.journal.unsent_events:
                self.journal.send_events()
            if requested:
                self.stop.wait(0.02)
                self.handshake.check_judge_timeout(self.wait_s)
            if now - polled > POLL_S:
                polled = now
                self.handshake.poll()
                if self.handshake.everyone_left():
                    return False
            self.outlets.send_alive()
        return False


def _look_ahead(
    packets: Iterator[MaskedPacket], following: deque[MaskedPacket]
) -> Iterator[MaskedPacket]:
    """Each packet, while `following` holds the MAX_ANNOUNCED ones after it, or all that are left.

    An error of the source is raised after all packets that were read before it.
    """
    failure: BciError | None = None
    try:
        for packet in packets:
            following.append(packet)
            if len(following) > MAX_ANNOUNCED:
                yield following.popleft()
    except BciError as error:
        failure = error
    while following:
        yield following.popleft()
    if failure is not None:
        raise failure
