"""Outages in real time: which packets a fault of the organiser's side covers.

Faults are a replay that sends a packet late, a link that delivers late, and a judge that stood still or was
away. Times are in seconds of the judge's clock.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from tracks.common.reasons import Reason

SETTLE_S = 1.0
"""How long after a fault its packets are determined, so that all of them have arrived."""


@dataclass(frozen=True)
class PacketOutage:
    """Packets first to last of a replay, counted over its run, and why they are an outage."""

    first: int
    last: int
    cause: Reason


@dataclass
class _Fault:
    """delayed_until: when all that the fault has delayed has arrived."""

    since: float
    until: float
    code: str
    delayed_until: float

    def cause(self) -> Reason:
        outage_s = round(self.until - self.since, 3)
        if self.code == "outage_judge":
            return Reason("outage_judge", outage_s=outage_s)
        if self.code == "outage_link":
            return Reason("outage_link", outage_s=outage_s)
        return Reason("outage_replay", outage_s=outage_s)


class OutageTracker:
    """Collects when packets left and when faults were, and gives the packets that they cover.

    longest_s: shorter faults are no outage. grace_s: a report counts as made before a packet that left so
    shortly before it arrived.
    """

    def __init__(self, longest_s: float, grace_s: float) -> None:
        self._longest_s = longest_s
        self._grace_s = grace_s
        self._left: list[float] = []
        self._numbers: list[int] = []
        self._faults: list[_Fault] = []

    def add_packet(self, number: int, due: float, left: float, arrived: float | None) -> None:
        """A packet that was due and left at these times; arrived: at the judge, None if that is unknown."""
        self._left.append(max(left, self._left[-1] if self._left else left))
        self._numbers.append(number)
        if left - due > self._longest_s:
            self.add_fault(due, left, "outage_replay")
        is_late = arrived is not None and arrived - left > self._longest_s
        if arrived is not None and is_late and not self._judge_stood_still(left, arrived):
            self.add_fault(left, arrived, "outage_link")

    def _judge_stood_still(self, left: float, arrived: float) -> bool:
        """Whether a packet arrived late because of the judge, which then delays nothing else."""
        last = self._faults[-1] if self._faults else None
        return (
            last is not None
            and last.code == "outage_judge"
            and last.since - self._longest_s <= left
            and arrived <= last.delayed_until
        )

    def add_fault(self, since: float, until: float, code: str) -> None:
        """A fault of the organiser's side; one that overlaps the last one extends it.

        The longest one gives the cause. That a link was down is only inferred, from packets that left and
        arrived late: a replay that stood still just after a packet had left looks the same.
        """
        fault = _Fault(since, until, code, self._delayed_until(since, until, code))
        last = self._faults[-1] if self._faults else None
        if last is not None and self._overlap(last, fault):
            last.code = max(fault, last, key=self._explains_s).code
            last.since, last.until = min(since, last.since), max(until, last.until)
            last.delayed_until = max(fault.delayed_until, last.delayed_until)
        else:
            self._faults.append(fault)

    def _explains_s(self, fault: _Fault) -> float:
        inferred_s = self._longest_s if fault.code == "outage_link" else 0.0
        return fault.until - fault.since - inferred_s

    def _delayed_until(self, since: float, until: float, code: str) -> float:
        """A judge that wakes up reads what has queued up. A link that is back carries the packets first.

        TCP doubles its waits: the teams' messages may follow later by as long as the link was down.
        """
        if code == "outage_link":
            return until + (until - since) + self._longest_s
        return until + self._longest_s if code == "outage_judge" else until

    def _overlap(self, one: _Fault, other: _Fault) -> bool:
        first, second = sorted((one, other), key=lambda fault: fault.since)
        return second.since <= first.delayed_until + self._longest_s

    def take(self, now: float) -> list[PacketOutage]:
        """The outages that are certain now: of faults that were over, with their delays, SETTLE_S ago."""
        over = [fault for fault in self._faults if fault.delayed_until + SETTLE_S <= now]
        self._faults = [fault for fault in self._faults if fault.delayed_until + SETTLE_S > now]
        return self._outages(over)

    def pending(self) -> list[PacketOutage]:
        """The outages of faults that `take` has not given yet, as far as their packets are known."""
        return self._outages(self._faults)

    def _outages(self, faults: list[_Fault]) -> list[PacketOutage]:
        outages = (self._outage(fault) for fault in faults)
        return [outage for outage in outages if outage is not None]

    def _outage(self, fault: _Fault) -> PacketOutage | None:
        """From the last packet before the fault, on which teams were at work, to the last one in it."""
        if not self._left:
            return None
        first = max(0, bisect_right(self._left, fault.since - self._grace_s) - 1)
        last = max(first, bisect_right(self._left, fault.delayed_until) - 1)
        return PacketOutage(self._numbers[first], self._numbers[last], fault.cause())


class PacketPlaces:
    """Where the packets of a team's log stand: the session, and the place in it, counted from 0.

    A team that joined late has not received the first packets, so its places are not the replay's numbers.
    """

    def __init__(self) -> None:
        self._numbers: list[list[int]] = []
        self.count = 0

    @property
    def next_number(self) -> int:
        """Number of the replay's packet after the last one here."""
        return next((numbers[-1] + 1 for numbers in reversed(self._numbers) if numbers), 0)

    def add(self, session: int, number: int | None) -> None:
        """The next packet of the log; number: counted over the run, None in logs of version 1."""
        while len(self._numbers) <= session:
            self._numbers.append([])
        self._numbers[session].append(self.next_number if number is None else number)
        self.count += 1

    def between(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """(session, from, to), both inclusive, of the packets with the numbers first to last."""
        places = []
        for session, numbers in enumerate(self._numbers):
            begin, end = bisect_left(numbers, first), bisect_right(numbers, last)
            if begin < end:
                places.append((session, begin, end - 1))
        return places
