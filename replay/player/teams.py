"""The teams of a run: who has joined, who is ready, and what to answer them."""

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


@dataclass
class JoinedTeam:
    """A team that takes part.

    plain: it needs no notes of packets that were announced. asks: it has a stream of packet requests.
    numbers: how many of its numbered messages were accepted.
    """

    name: str
    channels: dict[str, list[int]] = field(default_factory=dict)
    plain: bool = False
    asks: bool = False
    numbers: int = 0
    ready: bool = False
    done: bool = False

    def take_number(self, n: int) -> bool:
        """Whether n is the team's next number (-1, a message without a number, always is); it counts then.

        A smaller number is a repetition for the judge. A larger one is refused until the missing ones have
        come: otherwise a team could fill them in later, when it has seen more packets.
        """
        if n not in (-1, self.numbers):
            return False
        self.numbers += 1
        return True


@dataclass
class TeamRegistry:
    """Takes verified messages of teams and gives the answers. It belongs to the playing thread.

    signal_for: opens a team's signal stream and returns its source_id. check_channels: raises RuleError where
    a choice of leads breaks the track's rules; None where teams choose none.
    only: in lockstep a replay is for one team; its name, or empty until the first one joins.
    """

    offer: Offer
    tokens: Callable[[str], bytes | None]
    signal_for: Callable[[str, dict[str, list[int]]], str]
    check_channels: Callable[[list[int]], object] | None = None
    only: str = ""
    joined: dict[str, JoinedTeam] = field(default_factory=dict)

    def all_ready(self) -> bool:
        return bool(self.joined) and all(team.ready for team in self.joined.values())

    def token(self, team: str) -> bytes:
        return self.tokens(team) or b""

    def all_plain(self) -> bool:
        """Whether no team needs the notes of packets that were announced."""
        return all(team.plain for team in self.joined.values())

    def handle(self, message: ResultsMessage) -> tuple[bool, list[Message]]:
        """Whether the message is accepted, and the answers to it."""
        if isinstance(message, Hello):
            return True, [self.offer]
        if isinstance(message, Join):
            return True, [self._join(message)]
        team = self.joined.get(message.team)
        if self.offer.lockstep and isinstance(message, PacketRequest | ReportMessage | Done):
            in_order = team is not None and team.take_number(message.n)
            if not in_order:
                return False, []
        if team is not None:
            team.ready |= isinstance(message, Ready)
            team.done |= isinstance(message, Done)
        return True, []

    def welcomes(self) -> list[Message]:
        """The welcome of each team again, for a judge that came after them."""
        return [self._welcome(team) for team in self.joined.values()]

    def _join(self, join: Join) -> Message:
        run = self.offer.run
        if self.offer.lockstep and (self.only or join.team) != join.team:
            reason = f"it is team {self.only!r}'s; in lockstep each has its own"
            return Refused(run, join.team, reason, elsewhere=True)
        try:
            self._check(join)
        except RuleError as error:
            return Refused(run, join.team, str(error))
        self.only = join.team
        new = JoinedTeam(join.team, join.channels, join.plain, join.asks)
        return self._welcome(self.joined.setdefault(join.team, new))

    def _welcome(self, team: JoinedTeam) -> Message:
        signal = self.signal_for(team.name, team.channels)
        token = self.token(team.name)
        return Welcome(self.offer.run, team.name, signal, proof(self.offer.run, team.name, token))

    def _check(self, join: Join) -> None:
        if self.check_channels is None:
            return
        for subject in self.offer.subjects:
            if subject not in join.channels:
                raise RuleError(
                    f"no channels were chosen for subject {subject!r}; {self.offer.choose} of "
                    f"{len(self.offer.leads)} are needed for each of {self.offer.subjects}"
                )
            self.check_channels(join.channels[subject])
