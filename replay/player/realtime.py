"""Real time: a packet is sent at its own deadline, t0 + samples / rate, however late the one before it was.

Lateness does not add up and no packet is dropped. After a stall the packets due meanwhile follow at once; in
a contest all later deadlines are moved instead, because no decoder can process seconds of data in a moment.
"""

import logging
import math
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from bci_stream.clock import Clock
from bci_stream.wire.messages import Status, Stopped
from replay.player.handshake import STOPPED_BY_OPERATOR, HandshakeServer
from replay.player.journal import RunJournal
from replay.player.outlets import ReplayOutlets, Wait, no_wait
from replay.player.plan import PlaybackPlan
from replay.player.prefetch import Prefetch
from replay.player.repeats import BlockRepeater
from replay.transform.masking import MaskedPacket

logger = logging.getLogger(__name__)

LATE_S = 0.25
"""A packet that leaves later than this is stalled."""

LEAD_IN_S, LISTENER_LEAD_IN_S = 0.25, 1.0
"""Delay between having the first packet and its deadline, so that it is not late. Listeners that have opened
the signal get more time to open the marker stream too: LSL does not replay earlier samples."""

IDLE_S = 0.1
CONSUMERS_EVERY_S = 1.0
"""Longest wait for a deadline without handling messages, and how often consumers are counted."""

NOTE_AHEAD_S = 0.002
"""A packet's note leaves this long before its samples, so that a client has verified it when they arrive."""

PAUSE_POLL_S = 0.02

JITTER_PACKETS = 16
"""Over about so many packets the jitter is smoothed."""

FIRST_LEAD_S, MAX_LEAD_S = 0.00001, 0.0001
LEAD_STEP_S = 0.0000002
"""A wait ends early by the time that it takes from its end to the push, some 10 us. This lead is adjusted by
steps of LEAD_STEP_S up or down, so that it settles at the median."""


class StallReporter:
    """Reports a stall when it begins, and again each time its lateness has doubled."""

    def __init__(self) -> None:
        self._report_above_s = LATE_S

    def is_due(self, late_s: float) -> bool:
        """Whether to report; late_s: lateness of the next packet."""
        if late_s <= LATE_S:
            self._report_above_s = LATE_S
        if late_s <= self._report_above_s:
            return False
        self._report_above_s = 2 * late_s
        return True


@dataclass
class Realtime:
    """Plays a plan to any number of listeners, at `speed` times its own rate. `paused` holds packets back.

    endless: start over at the end, without a pause. for_teams: answer teams and judge meanwhile.
    wait_s: how long to wait for a judge that went away. outage_s: a packet that leaves later than this, in a
    contest, moves the deadlines of those after it. repeats: puts blocks that are played again among them.
    """

    outlets: ReplayOutlets
    handshake: HandshakeServer
    journal: RunJournal
    plan: PlaybackPlan
    clock: Clock
    wait_s: float
    stop: threading.Event
    speed: float
    endless: bool
    for_teams: bool
    paused: threading.Event
    repeats: BlockRepeater
    outage_s: float = math.inf

    def __post_init__(self) -> None:
        self._rate = self.plan.rate * self.speed
        self._stalls = StallReporter()
        self._counted_at = -math.inf

    def play(self) -> None:
        """Play until the end, or until it is stopped."""
        network = self.handshake.polling_thread() if self.for_teams else nullcontext()
        items = self.plan.packets(endless=self.endless)
        if self.plan.live:  # each packet at once; the device's own timeouts apply
            prefetch = Prefetch(items, self.stop, batch=1, idle=self._idle, timeout_s=None)
        else:
            prefetch = Prefetch(items, self.stop, idle=self._idle)
        with network, prefetch as packets:
            self._play_packets(packets)
        self.handshake.handle_posted()
        if self.stop.is_set():
            self.outlets.send(Stopped("the replay was stopped"))
        elif self.handshake.is_stopped:
            self.outlets.send(Stopped(STOPPED_BY_OPERATOR))

    def _play_packets(self, packets: Prefetch[MaskedPacket]) -> None:
        origin: float | None = None
        sent = 0
        lead_s = FIRST_LEAD_S
        self.journal.begin_session(0)
        for packet in self.repeats.chain(packets):
            if origin is None:  # not before: a source may need seconds to make its first packet
                origin = self.clock.now() + self._lead_in_s()
            self._idle()
            origin += self._hold()
            if self.handshake.is_stopped:
                break
            if (
                packet.truth and not self.plan.live
            ):  # a block is played again; it had to be read first
                origin = max(origin, self.clock.now() + LEAD_IN_S - sent / self._rate)
            packet = self.repeats.settle(packet)
            self.journal.begin_session(packet.session, packet.round)
            sent += packet.n
            self.journal.send_truth(packet)
            wait: Wait = no_wait
            deadline = packet.stamp
            if deadline is None:
                deadline = origin + sent / self._rate
                wait = self._wait_for(deadline - lead_s)
            left_at = self.journal.push_packet(packet, deadline, wait)
            if left_at is None:
                break
            late_s = left_at - deadline
            if self.for_teams:
                self.journal.send_events()
                if late_s > self.outage_s:
                    origin += late_s
            lead_s = adjusted_lead(lead_s, late_s)
            self._record_lateness(late_s)
            if self.stop.is_set() or self.handshake.is_stopped:
                break

    def _lead_in_s(self) -> float:
        has_listeners = not self.for_teams and self.outlets.has_consumers()
        return LISTENER_LEAD_IN_S if has_listeners else LEAD_IN_S

    def _wait_for(self, deadline: float) -> Wait:
        """Handle messages until the packet's note is due; the returned function waits for the deadline."""
        while (now := self.clock.now()) < deadline - IDLE_S and not self.stop.is_set():
            self.clock.sleep_until(now + IDLE_S / 2, self.stop)
            self._idle()
        if self.outlets.has_note_readers():
            self.clock.sleep_until(deadline - NOTE_AHEAD_S, self.stop)
        return partial(self.clock.wait_until, deadline, self.stop)

    def _idle(self) -> None:
        """What is done between packets: handle messages, and send a sign of life."""
        self.handshake.handle_posted()
        now = self.clock.now()
        if now - self._counted_at > CONSUMERS_EVERY_S:
            self._counted_at = now
            self.journal.progress.heard = self.outlets.has_consumers()
        self.journal.progress.teams = tuple(self.handshake.teams.joined)
        self.outlets.send_alive()

    def _hold(self) -> float:
        """Wait while the replay is paused or the judge is away; returns for how long, in seconds."""
        if not (self.paused.is_set() or self.handshake.is_held):
            return 0.0
        begun = self.clock.now()
        self.journal.progress.state = "paused"
        self.outlets.send(Status("paused"))
        while self.paused.is_set() or self.handshake.is_held:
            if self.stop.wait(PAUSE_POLL_S) or self.handshake.is_stopped:
                break
            self._idle()
            self.handshake.check_judge_timeout(self.wait_s)
        self.journal.progress.state = "playing"
        self.outlets.send(Status("resumed"))
        return self.clock.now() - begun

    def _record_lateness(self, late_s: float) -> None:
        progress = self.journal.progress
        progress.jitter_s += (abs(late_s - progress.late_s) - progress.jitter_s) / JITTER_PACKETS
        progress.late_s = late_s
        progress.worst_late_s = max(progress.worst_late_s, late_s)
        if not self.plan.live and self._stalls.is_due(late_s):
            logger.warning("stalled: a packet leaves %.2f s late; none is dropped", late_s)
            self.outlets.send(Status("late", f"{late_s:.3f} s"))


def adjusted_lead(lead_s: float, late_s: float) -> float:
    """Adjust the lead towards the median push delay; stalls are ignored."""
    if late_s > MAX_LEAD_S:
        return lead_s
    step_s = LEAD_STEP_S if late_s > 0 else -LEAD_STEP_S
    return min(max(lead_s + step_s, 0.0), MAX_LEAD_S)
