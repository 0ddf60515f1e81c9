"""Verifies messages of teams (MAC or seal, contest, run, number) and of the judge (signature, number).

Rejected messages of teams are counted by reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from bci_stream.errors import WireError
from bci_stream.wire.crypto import (
    MAC_LENGTH,
    PublicKey,
    unseal_results,
    verified,
)
from bci_stream.wire.messages import (
    MAX_TEXT,
    Hello,
    JudgeMessage,
    ResultsMessage,
    read_judge,
    read_results,
)

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


@dataclass(frozen=True, slots=True)
class TeamText:
    """A text of a results stream, and whose message of which run it claims to be.

    message: already decoded if the text is signed; None if it is sealed.
    """

    text: str
    team: str
    run: str
    message: ResultsMessage | None = None


def made_with(claimed: TeamText, token: bytes, contest: str) -> bool:
    """Whether a text was signed or sealed with this token for this contest, whatever it says."""
    if claimed.message is not None:
        return verified(claimed.text, token) is not None
    try:
        unseal_results(claimed.text, token, contest)
    except WireError:
        return False
    return True


def open_message(claimed: TeamText, token: bytes, contest: str) -> ResultsMessage | None:
    """The message, if it was made with this token for this contest; None otherwise."""
    if claimed.message is not None:
        return None if verified(claimed.text, token) is None else claimed.message
    try:
        text, team, run, seq = unseal_results(claimed.text, token, contest)
        message = read_results(text)
    except WireError:
        return None
    bound = (message.team, message.run, message.seq)
    return message if bound == (team, run, seq) else None


class MessageVerifier:
    """Verifies the results messages of one or several runs.

    runs: the accepted run ids; may change while the verifier is in use. sealed: whether messages must be
    sealed; otherwise they are signed. dropped: how many messages were rejected, by reason.
    """

    def __init__(
        self, contest: str, runs: Set[str], tokens: Tokens, *, sealed: bool = False
    ) -> None:
        self._contest = contest
        self._runs = runs
        self._tokens = tokens
        self._sealed = sealed
        self._windows: dict[tuple[str, str], SequenceWindow] = {}
        self.dropped: Counter[str] = Counter()

    def verify(self, text: str) -> ResultsMessage | None:
        """Read, authenticate and admit a message; None if it is rejected."""
        claimed = self.read(text)
        message = None if claimed is None else self.authenticate(claimed)
        return message if message is not None and self.admits(message) else None

    def read(self, text: str) -> TeamText | None:
        """Read whose message a text claims to be, without verifying it; None if it can't be read."""
        try:
            if len(text) > 2 * MAX_TEXT:
                raise WireError(f"a results message has at most {2 * MAX_TEXT} characters")
            if self._sealed:
                team, run, *_ = text[:200].split(" ", 2)
                return TeamText(text, team, "" if run == "-" else run)
            message = read_results(text[: -MAC_LENGTH - 1])
        except (WireError, ValueError):
            self.dropped["unreadable"] += 1
            return None
        return TeamText(text, message.team, message.run, message)

    def authenticate(
        self, claimed: TeamText, uid: str = "", owner: str = ""
    ) -> ResultsMessage | None:
        """The message, if the team that it names has sent it; None otherwise.

        uid, owner: of the stream that brought it, if there was one: a copy on another stream is refused, so
        that its number still counts as unused when the team's own message comes.
        """
        message = self._authenticated(claimed)
        if message is None:
            self.dropped["unsigned"] += 1
        elif (owner and message.team != owner) or (uid and message.stream not in ("", uid)):
            self.dropped["copied"] += 1
            return None
        return message

    def opens(self, claimed: TeamText) -> bool:
        """Whether a message was made with the team's present token, also if it is a copy or can't be read."""
        token = self._tokens(claimed.team)
        return token is not None and made_with(claimed, token, self._contest)

    def admits(self, message: ResultsMessage) -> bool:
        """Whether a message is for this contest and a known run, with a number that was not used before.

        From now on its number counts as used.
        """
        reason = self._rejection(message)
        if reason:
            self.dropped[reason] += 1
        return not reason

    def restore(self, texts: Iterable[str]) -> None:
        """Mark the numbers of messages that an earlier judge has logged as used.

        Only messages that name no stream could be sent again by others.
        """
        for text in texts:
            claimed = self.read(text)
            message = None if claimed is None else self._authenticated(claimed)
            if message is not None:
                self._window(message).use(message.seq)

    def _window(self, message: ResultsMessage) -> SequenceWindow:
        return self._windows.setdefault((message.team, message.run), SequenceWindow())

    def _authenticated(self, claimed: TeamText) -> ResultsMessage | None:
        token = self._tokens(claimed.team)
        if token is None:
            return None
        return open_message(claimed, token, self._contest)

    def _rejection(self, message: ResultsMessage) -> str:
        if message.contest != self._contest:
            return "other contest"
        is_search = isinstance(message, Hello) and not message.run
        if message.run not in self._runs and not is_search:
            return "other run"
        return "" if self._window(message).use(message.seq) else "repeated number"


class JudgeVerifier:
    """Verifies the judge's messages: signature, contest, stream, and a number that grows."""

    def __init__(self, contest: str, public_key: PublicKey) -> None:
        self._contest = contest
        self._public_key = public_key
        self._seq = -1

    def verify(self, text: str, uid: str = "") -> JudgeMessage | None:
        """The message; None if it is rejected. uid: of the stream that brought it, if it is known."""
        if len(text) > MAX_TEXT:
            return None
        plain = self._public_key.verified(without_mac(text), "judge")
        if plain is None:
            return None
        try:
            message = read_judge(plain)
        except WireError:
            return None
        if message.contest != self._contest or message.seq <= self._seq:
            return None
        if uid and message.stream not in ("", uid):
            return None
        self._seq = message.seq
        return message


def without_mac(text: str) -> str:
    """A judge's message without the MAC behind it, which version 1 of the protocol has."""
    return text if text.endswith("}") else text[: -MAC_LENGTH - 1]
