"""Reception: hears teams and judge, answers them through the lobby, and knows when a run may begin."""

import threading
from collections.abc import Callable
from typing import Literal

from bci_stream.errors import NotFoundError, WireError
from bci_stream.wire.chorus import Chorus
from bci_stream.wire.messages import (
    Catch,
    Closed,
    Go,
    Hello,
    Join,
    Offer,
    Ready,
    ResultsMessage,
    Seated,
    Session,
    Welcome,
    read_judge,
)
from bci_stream.wire.signing import verified
from bci_stream.wire.transport import Transport
from replay.lobby import Lobby
from replay.stage import Stage

StartOn = Literal["judge", "team", "consumer", "now"]
"""Who has to be there before the first packet: a judge that says go, a team, any consumer, nobody."""

POLL_S = 0.005
OFFER_EVERY_S = 0.5
LOOK_EVERY_S = 0.1
"""Listing what LSL has found costs far more than hearing what is already open."""


class Reception:
    """Handles everything that others say to a replay. `closed` are the teams that the judge has closed."""

    def __init__(
        self,
        transport: Transport,
        offer: Offer,
        stage: Stage,
        lobby: Lobby,
        contest_key: bytes,
        retell: Callable[[int], None],
        current_session: Callable[[], Session | None],
    ) -> None:
        """retell: tells a judge that was started again all that it missed, from a packet on."""
        self._transport = transport
        self._offer = offer
        self._stage = stage
        self._contest_key = contest_key
        self._results = Chorus(transport, offer.contest, "results")
        self._judge = Chorus(transport, offer.contest, "judge")
        self._retell = retell
        self._current_session = current_session
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

    def attend(self, timeout_s: float = 0.0) -> list[ResultsMessage]:
        """Hear and answer what has come; returns the teams' messages that can be believed."""
        now = self._transport.now()
        if now - self._looked_at > LOOK_EVERY_S:
            self._looked_at = now
            self._results.look()
            self._judge.look()
        self.attend_judge()
        return self.attend_teams(timeout_s)

    def attend_teams(self, timeout_s: float) -> list[ResultsMessage]:
        believed = []
        for _, text, _ in self._results.pull(timeout_s):
            message, answers = self.lobby.hear(text)
            for answer in answers:
                self._stage.say(answer)
            if isinstance(message, Hello | Join) and not self._begun:
                self._stage.probe()
            session = self._current_session()
            if isinstance(message, Ready) and session is not None:
                self._stage.say(session)  # for who comes late; the others know this one already
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
        if isinstance(message, Seated):
            self._stage.say(self._offer)
            self._stage.say(Welcome(self._offer.run, "", "", ""))
            self._stage.probe_truth()
        elif isinstance(message, Go):
            self._go = True
        elif isinstance(message, Catch):
            self._retell(message.packet)
        elif isinstance(message, Closed):
            self.closed.add(message.team)

    def gone(self) -> set[str]:
        """Teams whose streams have ended."""
        return set(self._results.gone) - set(self._results.owners)

    def _may_begin(self, start_on: StartOn) -> bool:
        if start_on == "now":
            return True
        if start_on == "consumer":
            return self._stage.has_consumers()
        if start_on == "team":
            return self.lobby.all_ready()
        return self._go and self.lobby.all_ready()

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
