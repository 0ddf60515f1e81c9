"""What a team may use in a run: compute time in lockstep, and messages.

A team that uses more is ended or disqualified, without effect on the others.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from bci_stream.contest.contest import Limits
from bci_stream.judge.session.plan import SessionPlan, duration_s
from tracks.common.reasons import Reason

MEGABYTE = 1_000_000
MINUTE_S = 60.0

FREE_MESSAGES = 100
"""Messages that a team may send beside those for each packet."""


class MessageQuota:
    """Counts the messages of one team in one run against the contest's limits.

    A minute is one of data, so that a fast decoder may report as much in lockstep as in real time.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._messages = 0
        self._total = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._recent_total = 0

    def add(self, length: int, data_s: float, packets: int) -> Reason | None:
        """Count a message of this many characters; a reason if the team has now sent too much.

        data_s, packets: how much data, in seconds, and how many packets the team has received.
        """
        self._messages += 1
        self._total += length
        self._add_recent(length, data_s)
        limits = self._limits
        if self._messages > FREE_MESSAGES + limits.reports_a_packet * (packets + 1):
            limit = limits.reports_a_packet
            return Reason("too_many_messages", count=self._messages, packets=packets, limit=limit)
        if self._recent_total > limits.message_mb_a_minute * MEGABYTE:
            return Reason("too_much_a_minute", limit_mb=limits.message_mb_a_minute)
        if self._total > limits.message_mb * MEGABYTE:
            return Reason("too_much_in_all", limit_mb=limits.message_mb)
        return None

    def _add_recent(self, length: int, data_s: float) -> None:
        """Sums by second: a minute of messages is at most 60 sums."""
        second = float(int(data_s))
        if self._recent and self._recent[-1][0] == second:
            length += self._recent.pop()[1]
        self._recent.append((second, length))
        while self._recent[0][0] < data_s - MINUTE_S:
            self._recent.popleft()
        self._recent_total = sum(size for _, size in self._recent)


class ComputeTime:
    """The compute time of one team in lockstep, from each packet to the request for the next one.

    Measured by the judge's clock alone. used_s: the time of the turns that are over, in seconds. is_held: the
    operator holds the packets back. In real time no turn is ended, so that no limit is exceeded.
    """

    def __init__(self, limits: Limits, plan: SessionPlan) -> None:
        self._limits = limits
        self._plan = plan
        self.used_s = 0.0
        self._turn_began: float | None = None
        self._resumed_at: float | None = None
        self.is_held = False

    def resume(self, past: Sequence[dict[str, Any]], at: float) -> None:
        """Continue from the lines of a log; each packet was requested when the one before was processed."""
        received = [float(event["t"]) for event in past if event["kind"] == "packet"]
        self.used_s = received[-1] - received[0] if received else 0.0
        self._resumed_at = at

    def end_turn(self, at: float) -> None:
        """The team asked for the next packet, which it has at this time."""
        if self.is_held:
            return
        if self._turn_began is not None:
            self.used_s += at - self._turn_began
        self._turn_began = at

    def hold(self) -> None:
        """No packet leaves from now on: no time is measured."""
        self.is_held, self._turn_began = True, None

    def release(self, at: float) -> None:
        """Packets leave again; silence counts from now, compute time from the next packet."""
        self.is_held, self._resumed_at = False, at

    def exceeded(self, now: float, *, has_left: bool) -> Reason | None:
        """Which limit the team has exceeded, if any; none while the run is held or before its first packet.

        has_left: the team has ended its run, so that its last turn is over.
        """
        since = self._resumed_at if self._turn_began is None else self._turn_began
        if self.is_held or since is None:
            return None
        turn_s = 0.0 if has_left else now - since
        if turn_s > self._limits.silence_s:
            return Reason("silent", silent_s=turn_s, limit_s=self._limits.silence_s)
        limit_s, used_s = self.limit_s(), self.used_s + turn_s
        if self._turn_began is None or limit_s is None or used_s <= limit_s:
            return None
        data_s = duration_s(self._plan) or 0.0
        return Reason("over_compute_limit", used_s=used_s, data_s=data_s, limit_s=limit_s)

    def limit_s(self) -> float | None:
        """Compute time that the whole run may take; None if a device is live."""
        data_s = duration_s(self._plan)
        if data_s is None:
            return None
        return self._limits.compute_factor * data_s + self._limits.compute_extra_s
