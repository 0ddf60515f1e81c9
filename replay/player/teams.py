"""The teams of a run: who has joined, who is ready, and what to answer them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from bci_stream.errors import RuleError
from bci_stream.wire.crypto import proof
from bci_stream.wire.messages import (
    NUMBERS_A_WORKER,
    ControlMessage,
    Done,
    Hello,
    Join,
    Offer,
    PacketRequest,
    Ready,
    Refused,
    ReportMessage,
    ResultsMessage,
    Status,
    Welcome,
)

logger = logging.getLogger(__name__)

LONGEST_REASON = 500


@dataclass
class JoinedTeam:
    """A team that takes part.

    worker: uid of its worker's results stream; nonce: of its join. plain: it needs no notes of packets that
    were announced. asks: it has a stream of packet requests, with the uid asks_uid. first_number: of this
    worker's first message; numbers: of its next one.
    """

    name: str
    worker: str
    nonce: str
    channels: dict[str, list[int]] = field(default_factory=dict)
    plain: bool = False
    asks: bool = False
    asks_uid: str = ""
    first_number: int = 0
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


class StreamUids(Protocol):
    """The streams of which a welcome names the uids."""

    @property
    def control_uid(self) -> str: ...
    def signal_for(self, team: str, channels: dict[str, list[int]]) -> str: ...
    def signal_uid(self, source_id: str) -> str: ...


@dataclass
class TeamRegistry:
    """Takes verified messages of teams and gives the answers. It belongs to the playing thread.

    streams: opens the teams' signal streams. is_live: whether a results stream, by its uid, is still there.
    next_packet: number of the next packet of a lockstep run that has begun; else -1. check_channels: raises
    RuleError where a choice of leads breaks the track's rules; None where teams choose none. only: in
    lockstep a replay is for one team; its name, or empty until the first one joins. takes: whether a team is
    on the track's list. returned: a worker has replaced another one; reset by whoever reads it.
    """

    offer: Offer
    tokens: Callable[[str], bytes | None]
    streams: StreamUids
    is_live: Callable[[str], bool]
    next_packet: Callable[[], int]
    check_channels: Callable[[list[int]], object] | None = None
    only: str = ""
    takes: Callable[[str], bool] = lambda _: True
    joined: dict[str, JoinedTeam] = field(default_factory=dict)
    returned: bool = False

    def token(self, team: str) -> bytes:
        return self.tokens(team) or b""

    def all_plain(self) -> bool:
        """Whether no team needs the notes of packets that were announced."""
        return all(team.plain for team in self.joined.values())

    def handle(self, message: ResultsMessage, worker: str) -> tuple[bool, list[ControlMessage]]:
        """Whether the message is accepted, and the answers to it; worker: uid of its results stream."""
        if isinstance(message, Hello):
            return True, [self.offer]
        if isinstance(message, Join):
            return True, self._join(message, worker)
        team = self.joined.get(message.team)
        if team is not None and team.worker != worker:
            return False, []
        if self.offer.lockstep and isinstance(message, PacketRequest | ReportMessage | Done):
            in_order = team is not None and team.take_number(message.n)
            if not in_order:
                return False, []
        if team is not None:
            team.ready |= isinstance(message, Ready)
            team.done |= isinstance(message, Done)
        return True, []

    def welcomes(self) -> list[ControlMessage]:
        """The welcome of each team again, for a judge that came after them."""
        return [self._welcome(team) for team in self.joined.values()]

    def _join(self, join: Join, worker: str) -> list[ControlMessage]:
        run = self.offer.run
        if self.offer.lockstep and (self.only or join.team) != join.team:
            reason = f"it is team {self.only!r}'s; in lockstep each has its own"
            return [Refused(run, join.team, reason, elsewhere=True)]
        if not self.takes(join.team):
            return self._refuse(
                join, f"team {join.team!r} is not on the list of track {self.offer.track!r}"
            )
        try:
            self._check(join)
        except RuleError as error:
            return self._refuse(join, str(error))
        team = self.joined.get(join.team)
        if team is not None and team.worker != worker and self.is_live(team.worker):
            return self._refuse_second(join)
        if team is not None and team.channels != join.channels:
            return self._refuse(join, "its leads of this run are chosen, and can't be changed")
        self.only = join.team
        if team is None:
            team = JoinedTeam(join.team, worker, join.nonce, join.channels, join.plain, join.asks)
            team.asks_uid = join.asks_uid
            self.joined[join.team] = team
        elif team.worker != worker:
            self._replace_worker(team, join, worker)
        team.nonce = join.nonce
        return [self._welcome(team)]

    def _refuse_second(self, join: Join) -> list[ControlMessage]:
        reason = (
            f"team {join.team!r} has a worker in this run already, and a second one is refused while the "
            "first is there; end that one first"
        )
        logger.warning("%s", reason)
        return [*self._refuse(join, reason), Status("second-worker", join.team)]

    def _refuse(self, join: Join, reason: str) -> list[ControlMessage]:
        """All teams receive the answer: what it quotes of a message must not make it too long for them."""
        shown = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}..."
        return [Refused(self.offer.run, join.team, shown)]

    def _replace_worker(self, team: JoinedTeam, join: Join, worker: str) -> None:
        """The team returns into the run with a new worker; its leads stay those of its first join."""
        logger.info("team %s has returned", team.name)
        team.worker, team.plain, team.asks = worker, join.plain, join.asks
        team.asks_uid = join.asks_uid
        team.ready = team.done = False
        team.first_number += NUMBERS_A_WORKER
        team.numbers = team.first_number
        self.returned = True

    def _welcome(self, team: JoinedTeam) -> Welcome:
        signal = self.streams.signal_for(team.name, team.channels)
        return Welcome(
            self.offer.run,
            team.name,
            signal,
            proof(self.offer.run, team.name, self.token(team.name)),
            team.nonce,
            self.streams.control_uid,
            self.streams.signal_uid(signal),
            team.first_number,
            self.next_packet(),
        )

    def _check(self, join: Join) -> None:
        if self.check_channels is None:
            return
        if extra := sorted(set(join.channels) - set(self.offer.subjects)):
            raise RuleError(
                f"channels were chosen for {extra}, which are not played; the subjects are "
                f"{self.offer.subjects}"
            )
        for subject in self.offer.subjects:
            if subject not in join.channels:
                raise RuleError(
                    f"no channels were chosen for subject {subject!r}; {self.offer.choose} of "
                    f"{len(self.offer.leads)} are needed for each of {self.offer.subjects}"
                )
            self.check_channels(join.channels[subject])
