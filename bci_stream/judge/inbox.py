"""An inbox puts a team's numbered messages in order, and knows which one is missing.

A message is missing where the judge was started again in the middle of a run: the team is asked to say
it again (`recall`). Where it never comes, the inbox goes on without it after a while.
"""

from collections.abc import Iterator

from bci_stream.wire.messages import Done, Next, Report

PATIENCE_S = 5.0
UNDER_WAY_S = 0.5

Numbered = Next | Report | Done


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
