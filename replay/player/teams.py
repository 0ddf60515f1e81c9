"""The lobby: who wants to take part in a run, who is in, who is ready, and may it begin."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bci_stream.errors import RuleError
from bci_stream.wire.crypto import proof
from bci_stream.wire.messages import (
    Done,
    Hello,
    Join,
    Message,
    Offer,
    PacketRequest,
    Ready,
    Refused,
    ReportMessage,
    ResultsMessage,
    Welcome,
)
from bci_stream.wire.verify import MessageVerifier

CheckChannels = Callable[[list[int]], object]


@dataclass
class JoinedTeam:
    """A team, as far as the replay knows it. numbers: how many of its numbered messages were heard."""

    name: str
    channels: dict[str, list[int]] = field(default_factory=dict)
    plain: bool = False
    asks: bool = False
    numbers: int = 0
    ready: bool = False
    done: bool = False


class TeamRegistry:
    """Messages of teams in, answers out; no stream is touched here.

    only: in lockstep a replay is one team's; empty until the first one joins.
    """

    def __init__(
        self,
        offer: Offer,
        ear: MessageVerifier,
        tokens: Callable[[str], bytes | None],
        signal_for: Callable[[str, dict[str, list[int]]], str],
        check_channels: CheckChannels | None,
        *,
        one_team: bool,
        only: str = "",
    ) -> None:
        self._offer = offer
        self._ear = ear
        self._tokens = tokens
        self._signal_for = signal_for
        self._check_channels = check_channels
        self._one_team = one_team
        self._only = only
        self.guests: dict[str, JoinedTeam] = {}

    @property
    def dropped(self) -> int:
        return sum(self._ear.dropped.values())

    def all_ready(self) -> bool:
        return bool(self.guests) and all(guest.ready for guest in self.guests.values())

    def token(self, team: str) -> bytes:
        return self._tokens(team) or b""

    def all_plain(self) -> bool:
        """Whether every team can do without the notes of plain packets."""
        return all(guest.plain for guest in self.guests.values())

    def hear(self, signed: str) -> tuple[ResultsMessage | None, list[Message]]:
        """What a team said, where it can be believed, and what to answer."""
        message = self._ear.verify(signed)
        if isinstance(message, Hello):
            return message, [self._offer]
        if isinstance(message, Join):
            return message, [self._join(message)]
        guest = self.guests.get(message.team) if message else None
        if self._one_team and isinstance(message, PacketRequest | ReportMessage | Done):
            in_order = guest is not None and counted(guest, message.n)
            if not in_order:
                return None, []
        if guest is not None and isinstance(message, Ready):
            guest.ready = True
        if guest is not None and isinstance(message, Done):
            guest.done = True
        return message, []

    def _join(self, join: Join) -> Message:
        if self._one_team and (self._only or join.team) != join.team:
            return self._refuse(join, f"it is team {self._only!r}'s; in lockstep each has its own")
        try:
            self._check(join)
        except RuleError as error:
            return Refused(self._offer.run, join.team, str(error))
        self._only = join.team
        new = JoinedTeam(join.team, join.channels, join.plain, join.asks)
        return self._welcome(self.guests.setdefault(join.team, new))

    def welcomes(self) -> list[Message]:
        """What each guest was told, for a judge that came after them."""
        return [self._welcome(guest) for guest in self.guests.values()]

    def _welcome(self, guest: JoinedTeam) -> Message:
        run, team = self._offer.run, guest.name
        signal = self._signal_for(team, guest.channels)
        return Welcome(run, team, signal, proof(run, team, self.token(team)))

    def _refuse(self, join: Join, reason: str) -> Refused:
        return Refused(self._offer.run, join.team, reason, elsewhere=True)

    def _check(self, join: Join) -> None:
        if self._check_channels is None:
            return
        for subject in self._offer.subjects:
            if subject not in join.channels:
                raise RuleError(
                    f"no channels were chosen for subject {subject!r}; {self._offer.choose} of "
                    f"{len(self._offer.leads)} are needed for each of {self._offer.subjects}"
                )
            self._check_channels(join.channels[subject])


def counted(guest: JoinedTeam, n: int) -> bool:
    """Whether this is the team's next numbered message (an unnumbered one is).

    What is older is said again for the judge. A number that is left out could be filled in later, when
    the team has seen more: so nothing counts, and no packet leaves, before it has come.
    """
    if n not in (-1, guest.numbers):
        return False
    guest.numbers += 1
    return True
