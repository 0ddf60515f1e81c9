"""An ear hears the teams: it believes what is signed, new and meant for this run; the rest it counts."""

from collections import Counter
from collections.abc import Callable

from bci_stream.errors import WireError
from bci_stream.wire.crypto import SIGNATURE_LENGTH, verified
from bci_stream.wire.messages import Hello, ResultsMessage, read_results

Tokens = Callable[[str], bytes | None]
"""A team's token, or None where the team may not take part."""


KEPT = 200_000


class SequenceWindow:
    """The numbers that a team has used. They grow, but may come again, and late, when they are recalled."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._floor = -1

    def take(self, number: int) -> bool:
        """Whether this number is new; from now on it is not."""
        if number <= self._floor or number in self._seen:
            return False
        self._seen.add(number)
        if len(self._seen) > KEPT:
            in_order = sorted(self._seen)
            self._floor = in_order[KEPT // 2]
            self._seen = set(in_order[KEPT // 2 + 1 :])
        return True

    @property
    def missing(self) -> int:
        """How many between the first and the last one never came."""
        return max(self._seen) - min(self._seen) + 1 - len(self._seen) if self._seen else 0


class MessageVerifier:
    """Reads signed results messages; `dropped` counts why others were not believed."""

    def __init__(self, contest: str, run: str, tokens: Tokens) -> None:
        self._contest = contest
        self._run = run
        self._tokens = tokens
        self._known: dict[str, bytes] = {}
        self._numbers: dict[str, SequenceWindow] = {}
        self.dropped: Counter[str] = Counter()

    @property
    def lost(self) -> dict[str, int]:
        """Messages of each team that never came, by the gaps in its numbers."""
        return {team: n.missing for team, n in self._numbers.items() if n.missing}

    def hear(self, signed: str) -> ResultsMessage | None:
        """The message, or None where it must not be believed."""
        try:
            return self._believed(signed)
        except WireError:
            self.dropped["unreadable"] += 1
            return None

    def _believed(self, signed: str) -> ResultsMessage | None:
        message = read_results(signed[: -SIGNATURE_LENGTH - 1])
        team = message.team
        token = self._known.get(team) or self._tokens(team)
        if token is None or verified(signed, token) is None:
            self.dropped["unsigned"] += 1
            return None
        self._known[team] = token
        if message.contest != self._contest:
            self.dropped["other contest"] += 1
        elif message.run != self._run and not isinstance(message, Hello):
            self.dropped["other run"] += 1
        elif not self._numbers.setdefault(team, SequenceWindow()).take(message.seq):
            self.dropped["seen number"] += 1
        else:
            return message
        return None
