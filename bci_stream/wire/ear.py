"""An ear hears the teams: it believes what is signed, new and meant for this run; the rest it counts."""

from collections import Counter
from collections.abc import Callable

import msgspec

from bci_stream.errors import WireError
from bci_stream.wire.messages import Hello, ResultsMessage, read_results
from bci_stream.wire.signing import SIGNATURE_LENGTH, verified

Tokens = Callable[[str], bytes | None]
"""A team's token, or None where the team may not take part."""


class _Address(msgspec.Struct):
    """The little that must be read before a signature can be checked: whose it claims to be."""

    team: str


_address = msgspec.json.Decoder(_Address)


class Ear:
    """Reads signed results messages; `dropped` counts why others were not believed."""

    def __init__(self, contest: str, run: str, tokens: Tokens) -> None:
        self._contest = contest
        self._run = run
        self._tokens = tokens
        self._last_seq: dict[str, int] = {}
        self.dropped: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()

    def hear(self, signed: str) -> ResultsMessage | None:
        """The message, or None where it must not be believed."""
        try:
            return self._believed(signed)
        except WireError:
            self.dropped["unreadable"] += 1
            return None

    def _believed(self, signed: str) -> ResultsMessage | None:
        team = _claimed_team(signed)
        token = None if team is None else self._tokens(team)
        text = None if token is None else verified(signed, token)
        if text is None or team is None:
            self.dropped["unsigned"] += 1
            return None
        message = read_results(text)
        if message.contest != self._contest:
            self.dropped["other contest"] += 1
        elif message.run != self._run and not isinstance(message, Hello):
            self.dropped["other run"] += 1
        elif message.seq <= self._last_seq.get(team, -1):
            self.dropped["seen number"] += 1
        else:
            self._note_seq(team, message.seq)
            return message
        return None

    def _note_seq(self, team: str, seq: int) -> None:
        last = self._last_seq.get(team)
        if last is not None and seq > last + 1:
            self.lost[team] += seq - last - 1
        self._last_seq[team] = seq


def _claimed_team(signed: str) -> str | None:
    try:
        return _address.decode(signed[: -SIGNATURE_LENGTH - 1]).team
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
