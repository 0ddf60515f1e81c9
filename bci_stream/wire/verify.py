"""Verifies results messages: signature, contest, run and sequence number.

Rejected messages are counted by reason.
"""

from collections import Counter
from collections.abc import Callable, Set

from bci_stream.errors import WireError
from bci_stream.wire.crypto import SIGNATURE_LENGTH, verified
from bci_stream.wire.messages import Hello, ResultsMessage, read_results

Tokens = Callable[[str], bytes | None]
"""A team's token, or None for a team that may not take part."""

WINDOW = 200_000


class SequenceWindow:
    """The sequence numbers that a team has used in a run.

    Numbers grow, but messages that the judge asks for again arrive late, in any order. Of more than
    WINDOW numbers the lower half is forgotten: those and all below count as used.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._floor = -1

    def use(self, number: int) -> bool:
        """Mark the number as used; returns False if it was used before."""
        if number <= self._floor or number in self._seen:
            return False
        self._seen.add(number)
        if len(self._seen) > WINDOW:
            in_order = sorted(self._seen)
            self._floor = in_order[WINDOW // 2]
            self._seen = set(in_order[WINDOW // 2 + 1 :])
        return True


class MessageVerifier:
    """Verifies the signed results messages of one or several runs.

    runs: the accepted run ids; may change while the verifier is in use.
    dropped: how many messages were rejected, by reason.
    """

    def __init__(self, contest: str, runs: Set[str], tokens: Tokens) -> None:
        self._contest = contest
        self._runs = runs
        self._tokens = tokens
        self._known_tokens: dict[str, bytes] = {}
        self._windows: dict[tuple[str, str], SequenceWindow] = {}
        self.dropped: Counter[str] = Counter()

    def verify(self, signed: str) -> ResultsMessage | None:
        """Decode and verify a message; None if it is rejected."""
        message = self.decode(signed)
        return message if message is not None and self.accepts(message, signed) else None

    def decode(self, signed: str) -> ResultsMessage | None:
        """Decode a message without verifying it; None if it can't be read."""
        try:
            return read_results(signed[: -SIGNATURE_LENGTH - 1])
        except WireError:
            self.dropped["unreadable"] += 1
            return None

    def accepts(self, message: ResultsMessage, signed: str) -> bool:
        """Verify a decoded message; from now on its sequence number counts as used."""
        reason = self._rejection(message, signed)
        if reason:
            self.dropped[reason] += 1
        return not reason

    def _rejection(self, message: ResultsMessage, signed: str) -> str:
        team, run = message.team, message.run
        token = self._known_tokens.get(team) or self._tokens(team)
        if token is None or verified(signed, token) is None:
            return "unsigned"
        self._known_tokens[team] = token
        if message.contest != self._contest:
            return "other contest"
        if run not in self._runs and not isinstance(message, Hello):
            return "other run"
        window = self._windows.setdefault((team, run), SequenceWindow())
        return "" if window.use(message.seq) else "repeated number"
