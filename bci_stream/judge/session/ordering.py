"""The order of packets and messages in a team's run, and how real time settles it.

In lockstep the replay's list of events is the order, and is folded as it stands. In real time the
judge puts the replay's packet notes and the team's messages into one order by their arrival.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from bci_stream.wire.messages import (
    NUMBERS_A_WORKER,
    Done,
    PacketNote,
    PacketRequest,
    ReportMessage,
)


@dataclass(frozen=True)
class PacketReceived:
    """The team received this packet; at: time in the judge's clock, in seconds."""

    note: PacketNote
    at: float


@dataclass(frozen=True)
class ReportReceived:
    """The team reported this result.

    text: the team's message as it was received, signed or sealed; n: its number in the run, or -1.
    """

    result: object
    at: float
    text: str = ""
    n: int = -1


@dataclass(frozen=True)
class TeamDone:
    """The team ended its run."""

    reason: str
    detail: str
    at: float


RunEvent = PacketReceived | ReportReceived | TeamDone
NumberedMessage = PacketRequest | ReportMessage | Done


def message_event(
    message: ReportMessage | Done, at: float, text: str = ""
) -> ReportReceived | TeamDone:
    if isinstance(message, ReportMessage):
        return ReportReceived(message.result, at, text, message.n)
    return TeamDone(message.reason, message.detail, at)


GIVE_UP_S = 5.0
"""How long a missing message is waited for before the ones after it are taken."""

RESEND_S = 0.5
"""How long a message may be missing before the team is asked to send it again."""


class ReorderBuffer:
    """Puts a team's numbered messages into the order of their numbers; repeated ones are dropped.

    expected: number of the next message; lower ones are in the log already.
    """

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self._last = expected - 1  # the largest number so far
        self._early: dict[int, tuple[NumberedMessage, float, str]] = {}
        self._gap_since: float | None = None

    def put(self, message: NumberedMessage, at: float, text: str = "") -> None:
        """Add a message that arrived at this time, as this text; one without a number counts as the next."""
        number = message.n if message.n >= 0 else self._last + 1
        if number >= self.expected:
            self._last = max(self._last, number)
            self._early.setdefault(number, (message, at, text))

    def take(self, now: float) -> Iterator[tuple[NumberedMessage, float, str]]:
        """Remove and return the messages that are next in order."""
        if self._early and self.expected not in self._early:
            self._skip_to_new_worker()
        if self._early and self.expected not in self._early:
            self._gap_since = now if self._gap_since is None else self._gap_since
            if now - self._gap_since > GIVE_UP_S:
                self.expected = min(self._early)
        while self.expected in self._early:
            self._gap_since = None
            yield self._early.pop(self.expected)
            self.expected += 1

    def _skip_to_new_worker(self) -> None:
        """Messages of a worker that has been replaced will not come any more."""
        first = min(self._early) // NUMBERS_A_WORKER * NUMBERS_A_WORKER
        self.expected = max(self.expected, first)

    def is_missing(self, now: float) -> bool:
        """Whether a message has been missing for RESEND_S while later ones are here."""
        return self._gap_since is not None and now - self._gap_since > RESEND_S


class RealtimeOrder:
    """Orders packets and reports in real time.

    A packet counts as received once it has been on the wire for the grace, a report when it ARRIVES.
    The grace is for transport and compute: a report that arrives within it counts as made before the
    packet. A decoder's own time stamps are not used.
    """

    def __init__(self, grace_s: float, packets: int = 0, messages: int = 0) -> None:
        """packets, messages: how many of each are in the log already, after a restart of the judge."""
        self._grace_s = grace_s
        self._next_packet = packets
        self._notes: deque[tuple[PacketNote, float]] = deque()
        self.messages = ReorderBuffer(messages)

    def add_note(self, note: PacketNote, left: float) -> None:
        """The replay sent this packet; left: when, in the judge's clock."""
        if note.i >= self._next_packet:
            self._notes.append((note, left))
            self._next_packet = note.i + 1

    def settled(self, read_to: float) -> Iterator[RunEvent]:
        """The events whose order is certain, in that order.

        read_to: every message that arrived before this time has been put. A later time would put packets
        before a report that arrived first, and has not been read yet.
        """
        for message, at, text in self.messages.take(read_to):
            yield from self._received(at)
            if isinstance(message, ReportMessage | Done):
                yield message_event(message, at, text)
        yield from self._received(read_to)

    def _received(self, at: float) -> Iterator[RunEvent]:
        while self._notes and self._notes[0][1] + self._grace_s <= at:
            yield PacketReceived(*self._notes.popleft())

    def is_idle(self) -> bool:
        """Whether no packet waits for its grace to pass."""
        return not self._notes

    def rest(self) -> Iterator[RunEvent]:
        """The run has ended: the packets that were still within their grace."""
        yield from self._received(float("inf"))
