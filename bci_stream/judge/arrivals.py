"""Reads the streams of teams and replays, and stamps what arrives, on a thread that does nothing else.

What a report used follows from when it arrived, so that time must not depend on how busy the judge is.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bci_stream.contest.contest import Limits
from bci_stream.wire.groups import StreamGroup, StreamLimits
from bci_stream.wire.messages import Offer
from bci_stream.wire.transport import Transport

READ_S, LOCKSTEP_READ_S = 0.002, 0.02
"""Pause between two looks at all streams: it bounds the error of arrival times, and leaves the CPU to the
decoders. In lockstep the replay measures the times."""

DISCOVER_EVERY_S = 0.25
OFFSET_EVERY_S = 2.0
"""How often new streams are looked for, and how often clock offsets are read again."""

MOST_QUEUED = 1 << 28
"""Characters that may wait for the judge; above that, messages of teams are dropped and counted."""

MOST_SEALED_TEXTS = 5000

TAKE_S = 0.1
"""How long the judge handles arrivals before it attends to its replays again."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A text that arrived at this time. offset_s: added to the sender's times it gives the judge's."""

    role: Literal["results", "truth"]
    uid: str
    owner: str
    text: str
    at: float
    offset_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JudgeStall:
    """This process stood still from `since` until `at`."""

    since: float
    at: float


class ArrivalReader:
    """The streams that a judge reads. Its thread owns them; the judge calls `take`, `accept` and `reject`.

    limits: a longer pause than `outage_s` between two looks is a stall. dropped: texts that were not queued.
    """

    def __init__(self, transport: Transport, contest: str, limits: Limits) -> None:
        self._now = transport.now
        self._limits = limits
        self.results = StreamGroup(transport, contest, "results")
        self.truths = StreamGroup(
            transport, contest, "truth", measure_clock=True, most_texts=MOST_SEALED_TEXTS
        )
        self._offsets: dict[str, float] = {}
        self._discovered_at = self._measured_at = float("-inf")
        self._running_at: float | None = None  # when the reading thread was last seen to run
        self._arrived: queue.SimpleQueue[Arrival | JudgeStall | Exception] = queue.SimpleQueue()
        self._put_chars = self._taken_chars = 0
        self.dropped = 0
        self._read_to = float("-inf")  # everything that arrived before this time is queued
        self.read_every_s = LOCKSTEP_READ_S

    # --- the reading thread -------------------------------------------------------------------

    def read_until(self, stop: threading.Event) -> None:
        """Read until `stop` is set; what goes wrong is raised by `take`."""
        try:
            self._running_at = self._now()
            while not stop.is_set():
                self.read()
                stop.wait(self.read_every_s)
        except Exception as error:  # noqa: BLE001 - raised in the judge's thread
            self._arrived.put(error)

    def read(self) -> None:
        """Queue everything that has arrived."""
        self._read(self.truths, "truth")
        now = self._read(self.results, "results")
        self._read_to = now
        if now - self._discovered_at > DISCOVER_EVERY_S:
            self._discovered_at = now
            self.results.look()
            self.truths.look()
        if now - self._measured_at > OFFSET_EVERY_S:
            self._measured_at = now
            self._offsets = {}

    def _read(self, group: StreamGroup, role: Literal["results", "truth"]) -> float:
        """Queue the texts of a group; returns the time that they got."""
        texts = group.pull()
        at = self._now()
        self._note_stall(at)  # before what it has delayed
        for uid, owner, text, _ in texts:
            if role == "results" and self._put_chars - self._taken_chars > MOST_QUEUED:
                self.dropped += 1
                continue
            self._put_chars += len(text)
            offset_s = self._offset_s(uid) if role == "truth" else 0.0
            self._arrived.put(Arrival(role, uid, owner, text, at, offset_s))
        return at

    def _note_stall(self, now: float) -> None:
        if self._running_at is None:
            return  # the judge reads without a thread
        if now - self._running_at > self._limits.outage_s:
            self._arrived.put(JudgeStall(self._running_at, now))
        self._running_at = now

    def _offset_s(self, uid: str) -> float:
        if uid not in self._offsets:
            inlet = self.truths.inlet(uid)
            self._offsets[uid] = inlet.clock_offset_s() if inlet is not None else 0.0
        return self._offsets[uid]

    # --- the judge's thread -------------------------------------------------------------------

    def follow(self, offers: Sequence[Offer]) -> None:
        """Read as the replays with these offers need it: in lockstep the replay bounds and times messages."""
        timed = [offer for offer in offers if not offer.lockstep]
        self.read_every_s = READ_S if timed else LOCKSTEP_READ_S
        self.results.limits = None
        if timed and len(timed) == len(offers):
            fastest = min(timed, key=lambda offer: offer.packet_s)
            given = self._limits
            self.results.limits = StreamLimits.of_team(
                fastest, given.reports_a_packet, given.message_mb_a_minute
            )

    def take(self, handle: Callable[[Arrival | JudgeStall], None]) -> float:
        """Call `handle` for what has arrived, in order, during TAKE_S; raises what the reading thread raised.

        Returns the time before which everything that arrived has been handled.
        """
        read_to, begun = self._read_to, self._now()  # before what is taken
        while not self._arrived.empty():
            arrived = self._arrived.get()
            if isinstance(arrived, Exception):
                raise arrived
            if isinstance(arrived, Arrival):
                self._taken_chars += len(arrived.text)
            handle(arrived)
            if self._now() - begun > TAKE_S:
                return min(read_to, arrived.at)
        return read_to

    def teams_gone(self) -> list[str]:
        """Teams whose streams have ended."""
        here = set(self.results.owners)
        return [team for team in self.results.gone if team not in here]

    def close(self) -> None:
        """Close the streams; the reading thread must have ended."""
        self.results.close()
        self.truths.close()
