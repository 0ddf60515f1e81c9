"""What came first, a packet or a report? The two clocks answer it differently; the log knows neither.

An order takes the replay's packet notes and a team's messages as they arrive, and gives the run log's
events in the one order that counts.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from bci_stream.wire.messages import Next, PacketNote, Report


@dataclass(frozen=True)
class Received:
    """The team received this packet, at this time of the judge's clock."""

    note: PacketNote
    at: float


@dataclass(frozen=True)
class Reported:
    """The team reported this, at this time of the judge's clock."""

    result: object
    at: float


Happening = Received | Reported


class Order(Protocol):
    def note(self, note: PacketNote, stamp: float) -> None:
        """The replay sent this packet; stamp: when, in the judge's clock."""

    def message(self, message: Next | Report, at: float) -> None:
        """The team said this; it arrived at this time."""

    def settled(self, now: float) -> Iterator[Happening]:
        """What is now certain, in order."""

    def idle(self) -> bool:
        """Whether nothing waits to be settled."""

    def rest(self) -> Iterator[Happening]:
        """The team has ended: what it had received and said by then."""


class LockstepOrder:
    """A packet is received when it was asked for. What a report used is what was asked for before it.

    The replay numbers what was asked for and said, so the order is exact however late its notes are.
    """

    def __init__(self, received: int = 0) -> None:
        """received: how many packets are in the log already, where the judge was started again."""
        self._notes: dict[int, PacketNote] = {}
        self._messages: deque[tuple[Next | Report, float]] = deque()
        self._wanted = received

    def note(self, note: PacketNote, stamp: float) -> None:
        if note.i >= self._wanted:
            self._notes[note.i] = note

    def message(self, message: Next | Report, at: float) -> None:
        self._messages.append((message, at))

    def settled(self, now: float) -> Iterator[Happening]:
        while self._messages:
            message, at = self._messages[0]
            if isinstance(message, Report):
                yield Reported(message.result, at)
            elif message.packet == self._wanted:
                note = self._notes.pop(message.packet, None)
                if note is None:
                    return  # the replay's note is still under way
                self._wanted += 1
                yield Received(note, at)
            self._messages.popleft()

    def idle(self) -> bool:
        return not self._messages

    def rest(self) -> Iterator[Happening]:
        """A request that was never answered gave nothing; reports after it still count."""
        yield from self.settled(0.0)
        while self._messages:
            message, at = self._messages.popleft()
            if isinstance(message, Report):
                yield Reported(message.result, at)


class RealtimeOrder:
    """A packet is received once it has been on the wire for the grace; a report when it ARRIVES.

    The grace is for transport and compute: a report that arrives within it still counts as made
    before the packet. A decoder's own time stamps play no part.
    """

    def __init__(self, grace_s: float, received: int = 0) -> None:
        self._grace_s = grace_s
        self._next = received
        self._notes: deque[tuple[PacketNote, float]] = deque()
        self._reports: deque[tuple[Report, float]] = deque()

    def note(self, note: PacketNote, stamp: float) -> None:
        if note.i >= self._next:
            self._notes.append((note, stamp))
            self._next = note.i + 1

    def message(self, message: Next | Report, at: float) -> None:
        if isinstance(message, Report):
            self._reports.append((message, at))

    def settled(self, now: float) -> Iterator[Happening]:
        while self._reports:
            report, at = self._reports.popleft()
            yield from self._due(at)
            yield Reported(report.result, at)
        yield from self._due(now)

    def _due(self, now: float) -> Iterator[Happening]:
        while self._notes and self._notes[0][1] + self._grace_s <= now:
            note, stamp = self._notes.popleft()
            yield Received(note, stamp)

    def idle(self) -> bool:
        return not self._notes and not self._reports

    def rest(self) -> Iterator[Happening]:
        yield from self.settled(float("inf"))
