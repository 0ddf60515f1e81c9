"""What came first, a packet or a report? The two clocks answer it differently; the log knows neither.

An order takes the replay's packet notes and a team's messages as they arrive, and gives the run log's
events in the one order that counts.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from bci_stream.wire.messages import Done, PacketNote, PacketRequest, ReportMessage


@dataclass(frozen=True)
class PacketReceived:
    """The team received this packet, at this time of the judge's clock."""

    note: PacketNote
    at: float


@dataclass(frozen=True)
class ReportReceived:
    """The team reported this, at this time of the judge's clock."""

    result: object
    at: float


LoggedEvent = PacketReceived | ReportReceived


class Order(Protocol):
    def note(self, note: PacketNote, stamp: float) -> None:
        """The replay sent this packet; stamp: when, in the judge's clock."""

    def message(self, message: PacketRequest | ReportMessage, at: float) -> None:
        """The team said this; it arrived at this time."""

    def settled(self, now: float) -> Iterator[LoggedEvent]:
        """What is now certain, in order."""

    def idle(self) -> bool:
        """Whether nothing waits to be settled."""

    def rest(self) -> Iterator[LoggedEvent]:
        """The team has ended: what it had received and said by then."""


class LockstepOrder:
    """A packet is received when it was asked for. What a report used is what was asked for before it.

    The replay numbers what was asked for and said, so the order is exact however late its notes are.
    """

    def __init__(self, received: int = 0) -> None:
        """received: how many packets are in the log already, where the judge was started again."""
        self._notes: dict[int, PacketNote] = {}
        self._messages: deque[tuple[PacketRequest | ReportMessage, float]] = deque()
        self._wanted = received

    def note(self, note: PacketNote, stamp: float) -> None:
        if note.i >= self._wanted:
            self._notes[note.i] = note

    def message(self, message: PacketRequest | ReportMessage, at: float) -> None:
        self._messages.append((message, at))

    def settled(self, now: float) -> Iterator[LoggedEvent]:
        while self._messages:
            message, at = self._messages[0]
            if isinstance(message, ReportMessage):
                yield ReportReceived(message.result, at)
            elif message.packet == self._wanted:
                note = self._notes.pop(message.packet, None)
                if note is None:
                    return  # the replay's note is still under way
                self._wanted += 1
                yield PacketReceived(note, at)
            self._messages.popleft()

    def idle(self) -> bool:
        return not self._messages

    def rest(self) -> Iterator[LoggedEvent]:
        """A request that was never answered gave nothing; reports after it still count."""
        yield from self.settled(0.0)
        while self._messages:
            message, at = self._messages.popleft()
            if isinstance(message, ReportMessage):
                yield ReportReceived(message.result, at)


class RealtimeOrder:
    """A packet is received once it has been on the wire for the grace; a report when it ARRIVES.

    The grace is for transport and compute: a report that arrives within it still counts as made
    before the packet. A decoder's own time stamps play no part.
    """

    def __init__(self, grace_s: float, received: int = 0) -> None:
        self._grace_s = grace_s
        self._next = received
        self._notes: deque[tuple[PacketNote, float]] = deque()
        self._reports: deque[tuple[ReportMessage, float]] = deque()

    def note(self, note: PacketNote, stamp: float) -> None:
        if note.i >= self._next:
            self._notes.append((note, stamp))
            self._next = note.i + 1

    def message(self, message: PacketRequest | ReportMessage, at: float) -> None:
        if isinstance(message, ReportMessage):
            self._reports.append((message, at))

    def settled(self, now: float) -> Iterator[LoggedEvent]:
        while self._reports:
            report, at = self._reports.popleft()
            yield from self._due(at)
            yield ReportReceived(report.result, at)
        yield from self._due(now)

    def _due(self, now: float) -> Iterator[LoggedEvent]:
        while self._notes and self._notes[0][1] + self._grace_s <= now:
            note, stamp = self._notes.popleft()
            yield PacketReceived(note, stamp)

    def idle(self) -> bool:
        return not self._notes and not self._reports

    def rest(self) -> Iterator[LoggedEvent]:
        yield from self.settled(float("inf"))


PATIENCE_S = 5.0
UNDER_WAY_S = 0.5

Numbered = PacketRequest | ReportMessage | Done


class Inbox:
    """expected: the number of the next message; those before it are in the log already."""

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self.lost = 0
        self._early: dict[int, tuple[Numbered, float]] = {}
        self._gap_since: float | None = None

    def misses(self, now: float) -> bool:
        """Whether a message has been missing for a while, though later ones are here.

        For a moment one always may be: asks are told by the replay, and reports by the team itself.
        """
        return self._gap_since is not None and now - self._gap_since > UNDER_WAY_S

    def put(self, message: Numbered, at: float) -> None:
        """A message that is not numbered is taken as the next one."""
        number = message.n if message.n >= 0 else self._next_free()
        if number >= self.expected:
            self._early.setdefault(number, (message, at))

    def _next_free(self) -> int:
        return max(self._early, default=self.expected - 1) + 1

    def take(self, now: float) -> Iterator[tuple[Numbered, float]]:
        """What can be handled now, in order."""
        if self._early and self.expected not in self._early:
            self._gap_since = now if self._gap_since is None else self._gap_since
            if now - self._gap_since > PATIENCE_S:
                first = min(self._early)
                self.lost += first - self.expected
                self.expected = first
        while self.expected in self._early:
            self._gap_since = None
            yield self._early.pop(self.expected)
            self.expected += 1
