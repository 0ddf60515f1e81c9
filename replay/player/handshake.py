"""Reception: hears teams and judge, answers them through the lobby, and knows when a run may begin."""

import threading
from typing import Literal

import numpy as np

from bci_stream.errors import LostError, NotFoundError, WireError
from bci_stream.wire import names
from bci_stream.wire.crypto import verified
from bci_stream.wire.groups import StreamGroup
from bci_stream.wire.messages import (
    Closed,
    Done,
    Go,
    Hello,
    Join,
    JudgeReady,
    Offer,
    PacketRequest,
    Ready,
    ReplayHistory,
    ReportMessage,
    ResultsMessage,
    Welcome,
    read_judge,
)
from bci_stream.wire.requests import LEADS, decode_request
from bci_stream.wire.transport import FoundStream, SampleInlet, Transport
from replay.player.journal import RunJournal
from replay.player.outlets import ReplayOutlets
from replay.player.teams import TeamRegistry, counted

OPEN_S = 5.0


class PacketRequests:
    """Hears every stream that says it is the team's; only what the team signed counts."""

    def __init__(
        self, transport: Transport, contest: str, team: str, run: str, token: bytes
    ) -> None:
        self._transport = transport
        self._watch = transport.watch(names.source_id(contest, "asks", team))
        self._run = run
        self._token = token
        self._inlets: dict[str, SampleInlet] = {}
        self._passed_over: set[str] = set()

    @property
    def heard(self) -> bool:
        """Whether a stream is open."""
        return bool(self._inlets)

    def look(self) -> None:
        for found in self._watch.found():
            if found.uid not in self._inlets and found.uid not in self._passed_over:
                self._open(found)

    def _open(self, found: FoundStream) -> None:
        try:
            inlet = self._transport.sample_inlet(found, OPEN_S)
        except (NotFoundError, LostError):
            return  # seen, but gone before it could be opened
        if inlet.spec.format == "int32" and inlet.spec.channels == len(LEADS):
            self._inlets[found.uid] = inlet
        else:
            self._passed_over.add(found.uid)
            inlet.close()

    def pull(self, timeout_s: float) -> list[tuple[int, int]]:
        """(packet, n) of the asks that have come; waits up to timeout_s where there is one stream."""
        wait_s = timeout_s if len(self._inlets) == 1 else 0.0
        asks = []
        for uid, inlet in list(self._inlets.items()):
            try:
                rows, _ = inlet.pull(1, wait_s)
            except LostError:
                self._passed_over.add(uid)
                self._inlets.pop(uid).close()
                continue
            asks += [
                decode_request(np.asarray(row, np.int32), self._run, self._token) for row in rows
            ]
        return [ask for ask in asks if ask is not None]

    def close(self) -> None:
        self._watch.close()
        for inlet in self._inlets.values():
            inlet.close()
        self._inlets.clear()


StartOn = Literal["judge", "team", "consumer", "now"]
"""Who has to be there before the first packet: a judge that says go, a team, any consumer, nobody."""

POLL_S = 0.005
OFFER_EVERY_S = 0.5
UNDER_WAY_S = 1.0
LOOK_EVERY_S = 0.1
"""Listing what LSL has found costs far more than hearing what is already open."""


class HandshakeServer:
    """Handles everything that others say to a replay. `closed` are the teams that the judge has closed."""

    def __init__(
        self,
        transport: Transport,
        offer: Offer,
        stage: ReplayOutlets,
        lobby: TeamRegistry,
        contest_key: bytes,
        telling: RunJournal,
    ) -> None:
        self._transport = transport
        self._offer = offer
        self._stage = stage
        self._contest_key = contest_key
        self._results = StreamGroup(transport, offer.contest, "results")
        self._judge = StreamGroup(transport, offer.contest, "judge")
        self._telling = telling
        self._asks: PacketRequests | None = None
        self._begun = False
        self._go = False
        self.judge_gone_at = 0.0
        self._looked_at = 0.0
        self.lobby = lobby
        self.closed: set[str] = set()

    def wait(self, start_on: StartOn, timeout_s: float, stop: threading.Event) -> bool:
        """Receive guests until the run may begin; False where it was stopped before that."""
        begun = self._transport.now()
        offered = begun - OFFER_EVERY_S
        while not stop.is_set():
            now = self._transport.now()
            if now - offered >= OFFER_EVERY_S:
                self._stage.say(self._offer)
                offered = now
            self.attend()
            if self._may_begin(start_on):
                self._begun = True
                return True
            if now - begun > timeout_s:
                raise NotFoundError(self._nobody(start_on, timeout_s))
            stop.wait(POLL_S)
        return False

    def attend(self, timeout_s: float = 0.0) -> None:
        """Hear and answer what has come."""
        now = self._transport.now()
        if now - self._looked_at > LOOK_EVERY_S:
            self._looked_at = now
            self._results.look()
            self._judge.look()
            self._look_for_asks()
        self.attend_judge()
        self.attend_teams(timeout_s)

    def _look_for_asks(self) -> None:
        """In lockstep, of the one team, where it has such a stream."""
        for guest in self.lobby.guests.values():
            if guest.asks and self._offer.lockstep and self._asks is None:
                token = self.lobby.token(guest.name)
                self._asks = PacketRequests(
                    self._transport, self._offer.contest, guest.name, self._offer.run, token
                )
        if self._asks is not None:
            self._asks.look()

    def asked(self, packet: int, timeout_s: float, *, by_ask: bool) -> bool:
        """Whether the team asks for this packet; by_ask: an ask is likelier than a text."""
        if by_ask and self._asks is not None:
            for wanted, n in self._asks.pull(timeout_s):
                if wanted == packet and self._is_next(n):
                    return True
            timeout_s = 0.0
        said = self.attend_teams(timeout_s)
        return any(
            isinstance(message, PacketRequest) and message.packet == packet for message in said
        )

    def _is_next(self, n: int) -> bool:
        """Whether all that the team said before this ask has been heard; it may still be under way."""
        (guest,) = self.lobby.guests.values()
        begun = self._transport.now()
        while guest.numbers < n and self._transport.now() - begun < UNDER_WAY_S:
            self.attend_teams(POLL_S)
        return counted(guest, n)

    def attend_teams(self, timeout_s: float) -> list[ResultsMessage]:
        """Hear and answer the teams; returns those of their messages that can be believed."""
        believed = []
        for _, text, _ in self._results.pull(timeout_s):
            message, answers = self.lobby.hear(text)
            for answer in answers:
                self._stage.say(answer)
            if isinstance(message, Hello | Join) and not self._begun:
                self._stage.probe()
            session = self._telling.session_said
            if isinstance(message, Ready) and session is not None:
                self._stage.say(session)  # for who comes late; the others know this one already
            if isinstance(message, ReportMessage | Done) and self._offer.lockstep:
                self._telling.heard(text, self._transport.now())
            if message is not None:
                believed.append(message)
        return believed

    def attend_judge(self) -> None:
        for _, text, _ in self._judge.pull():
            self._heed(text)
        if self._go and not self._judge.owners:
            self._go = False
            self.judge_gone_at = self._transport.now()

    @property
    def judge_is_away(self) -> bool:
        """A judge that had said go is gone; until another one says go, nothing would be judged."""
        return self._begun and self.judge_gone_at > 0 and not self._go

    def _heed(self, text: str) -> None:
        plain = verified(text, self._contest_key)
        if plain is None:
            return
        try:
            message = read_judge(plain)
        except WireError:
            return
        if message.run not in ("", self._offer.run):
            return
        if isinstance(message, JudgeReady):
            self._stage.say(self._offer)
            self._stage.say(Welcome(self._offer.run, "", "", ""))
            for welcome in self.lobby.welcomes():
                self._stage.say(welcome)
            self._stage.probe_truth()
        elif isinstance(message, Go):
            self._go = True
        elif isinstance(message, ReplayHistory):
            self._telling.retell(self.judge_gone_at or self._transport.now())
        elif isinstance(message, Closed):
            self.closed.add(message.team)

    def give_up_on_judge(self, now: float, wait_s: float) -> None:
        """Raise where the judge has been away for longer than wait_s."""
        if now - self.judge_gone_at > wait_s:
            raise NotFoundError(
                f"the judge went away and none came back for {wait_s:g} s; start `bci-judge live` "
                "again while the replay waits, and it goes on where it was"
            )

    # --- who has left -------------------------------------------------------------------------

    def everyone_left(self) -> bool:
        return bool(self.lobby.guests) and set(self.lobby.guests) <= self._left()

    def everyone_has_all(self, *, judged: bool) -> bool:
        """Whether no team needs the streams any more; one that is judged stays until it is closed."""
        done = {guest.name for guest in self.lobby.guests.values() if guest.done and not judged}
        return set(self.lobby.guests) <= self._left() | done

    def _left(self) -> set[str]:
        """Teams whose streams have ended, or whose runs the judge has closed."""
        return (set(self._results.gone) - set(self._results.owners)) | self.closed

    def _may_begin(self, start_on: StartOn) -> bool:
        if start_on == "now":
            return True
        if start_on == "consumer":
            return self._stage.has_consumers()
        ready = self.lobby.all_ready() and self._asks_are_heard()
        return ready and (start_on == "team" or self._go)

    def _asks_are_heard(self) -> bool:
        wanted = any(guest.asks for guest in self.lobby.guests.values())
        heard = self._asks is not None and self._asks.heard
        return heard or not wanted or not self._offer.lockstep

    def _nobody(self, start_on: StartOn, timeout_s: float) -> str:
        teams = ", ".join(
            f"{g.name} ({'ready' if g.ready else 'joining'})" for g in self.lobby.guests.values()
        )
        waited = {
            "judge": "a judge's go (`bci-judge live`)",
            "team": "a team (`bci-decode`)",
            "consumer": "a consumer of the signal stream",
            "now": "nobody",
        }[start_on]
        return (
            f"waited {timeout_s:g} s for {waited}, which never came; judges seen: "
            f"{len(self._judge.owners)}; teams seen: {teams or 'none'}; messages that were not "
            f"believed: {self.lobby.dropped}. Start what is missing, or choose another --start"
        )

    def close(self) -> None:
        self._results.close()
        self._judge.close()
        if self._asks is not None:
            self._asks.close()
