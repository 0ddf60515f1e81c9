"""How much a team may send in a run; one that sends more is disqualified, without effect on the others."""

from collections import deque

from bci_stream.contest.contest import Limits
from tracks.common.reasons import Reason

MEGABYTE = 1_000_000
MINUTE_S = 60.0

FREE_MESSAGES = 100
"""Messages that a team may send beside those for each packet."""


class MessageQuota:
    """Counts the messages of one team in one run against the contest's limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._messages = 0
        self._total = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._recent_total = 0

    def add(self, length: int, at: float, packets: int) -> Reason | None:
        """Count a message of this many characters; a reason if the team has now sent too much.

        at: in seconds. packets: how many packets the team has received.
        """
        self._messages += 1
        self._total += length
        self._add_recent(length, at)
        limits = self._limits
        if self._messages > FREE_MESSAGES + limits.reports_a_packet * (packets + 1):
            limit = limits.reports_a_packet
            return Reason("too_many_messages", count=self._messages, packets=packets, limit=limit)
        if self._recent_total > limits.message_mb_a_minute * MEGABYTE:
            return Reason("too_much_a_minute", limit_mb=limits.message_mb_a_minute)
        if self._total > limits.message_mb * MEGABYTE:
            return Reason("too_much_in_all", limit_mb=limits.message_mb)
        return None

    def _add_recent(self, length: int, at: float) -> None:
        """Sums by second: a minute of messages is at most 60 sums."""
        second = float(int(at))
        if self._recent and self._recent[-1][0] == second:
            length += self._recent.pop()[1]
        self._recent.append((second, length))
        while self._recent[0][0] < at - MINUTE_S:
            self._recent.popleft()
        self._recent_total = sum(size for _, size in self._recent)
