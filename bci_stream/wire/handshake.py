"""How a team comes into a run: find a replay of its track, join it, and prove every stream.

Nothing is lost at the start: the replay sends probes until the team has seen one on each of its
streams, and only a team that says it is ready is counted in. Every wait here ends.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bci_stream.errors import NotFoundError, RefusedError, WireError
from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.finding import POLL_S, never_came, wait_for_stream
from bci_stream.wire.messages import (
    ControlMessage,
    Hello,
    Join,
    Offer,
    Refused,
    ResultsMessage,
    Welcome,
    read_control,
    speed_of,
)
from bci_stream.wire.signal_reader import SignalReader
from bci_stream.wire.signing import proof
from bci_stream.wire.transport import Found, TextInlet, Transport
from bci_stream.wire.voice import Voice

REPEAT_S = 0.25
"""A handshake message is said again after this long: whoever opens its ears late hears it too."""

EXTRAS = {"plain": True, "asks": True}
"""What this client can do beyond the least that docs/protocol.md asks for; for lockstep."""

Choose = Callable[[Offer], dict[str, list[int]]]


@dataclass(frozen=True)
class Joined:
    """A team's place in a run."""

    replay: str
    offer: Offer
    control: TextInlet
    signal: SignalReader
    leads: tuple[Lead, ...]
    channels: dict[str, list[int]]


class NotHereError(WireError):
    """This replay is not for us; another one may be."""


@dataclass(frozen=True)
class Handshake:
    """What a team brings along. `say` is told what a person should know."""

    transport: Transport
    voice: Voice
    track: str
    choose: Choose
    timeout_s: float
    stop: threading.Event
    say: Callable[[str], None]

    def join(self) -> Joined:
        """Take part in the first run of this track that takes us; other replays are passed over."""
        deadline = self.transport.now() + self.timeout_s
        watch = self.transport.watch(names.prefix(self.voice.contest, "control"))
        what = f"a replay of contest {self.voice.contest!r} on track {self.track!r}"
        refused: dict[str, str] = {}
        try:
            while not self.stop.is_set():
                for found in watch.found():
                    if found.uid not in refused:
                        try:
                            return self._join(found, deadline)
                        except NotHereError as error:
                            refused[found.uid] = str(error)
                            self.say(f"{error}; still looking")
                if self.transport.now() > deadline:
                    said = "".join(f"; {reason}" for reason in refused.values())
                    raise NotFoundError(never_came(self.transport, what, self.timeout_s) + said)
                self.stop.wait(POLL_S)
        finally:
            watch.close()
        raise NotFoundError(f"stopped while waiting for {what}")

    def _join(self, found: Found, deadline: float) -> Joined:
        replay = names.owner(found.source_id)
        control = self.transport.text_inlet(found, self.timeout_s)
        offer = self._await_offer(control, replay, deadline)
        self.voice.run = offer.run
        channels = self.choose(offer) if offer.choose else {}
        if offer.lockstep:
            self.voice.open_asks()
        welcome = self._await_welcome(control, replay, channels, deadline)
        signal, leads = self._open_signal(control, welcome.signal, offer, channels, deadline)
        return Joined(replay, offer, control, signal, leads, channels)

    def _await_offer(self, control: TextInlet, replay: str, deadline: float) -> Offer:
        what = f"an offer of replay {replay!r}"
        for message in self._talk(control, Hello, deadline, what):
            if isinstance(message, Offer):
                if message.track != self.track:
                    raise NotHereError(
                        f"replay {replay!r} plays track {message.track!r}, not {self.track!r}"
                    )
                return message
        raise NotFoundError(f"stopped while waiting for {what}")

    def _await_welcome(
        self, control: TextInlet, replay: str, channels: dict[str, list[int]], deadline: float
    ) -> Welcome:
        what = f"a welcome of replay {replay!r}"
        team = self.voice.team
        for message in self._talk(control, Join, deadline, what, channels=channels, **EXTRAS):
            if isinstance(message, Refused) and message.team == team:
                kind = NotHereError if message.elsewhere else RefusedError
                raise kind(f"replay {replay!r} refused: {message.reason}")
            if isinstance(message, Welcome) and message.team == team:
                if message.proof != proof(self.voice.run, team, self.voice.token):
                    raise RefusedError(
                        f"replay {replay!r} does not know this team's token, so it is not the "
                        "organiser's; check --contest and --token"
                    )
                return message
        raise NotFoundError(f"stopped while waiting for {what}")

    def _open_signal(
        self,
        control: TextInlet,
        source_id: str,
        offer: Offer,
        channels: dict[str, list[int]],
        deadline: float,
    ) -> tuple[SignalReader, tuple[Lead, ...]]:
        what = f"signal {source_id}"
        found = wait_for_stream(self.transport, source_id, what, self.timeout_s, self.stop)
        inlet = self.transport.sample_inlet(found, self.timeout_s)
        for _ in self._talk(
            control, Join, deadline, f"a probe on {what}", 0.005, channels=channels, **EXTRAS
        ):
            if len(inlet.pull(1, 0.0)[0]):
                break
        return SignalReader(inlet, offer.rate * speed_of(offer.pace)), inlet.spec.leads[:-1]

    def _talk(
        self,
        control: TextInlet,
        kind: type[ResultsMessage],
        deadline: float,
        what: str,
        listen_s: float = REPEAT_S / 2,
        **fields: object,
    ) -> Iterator[ControlMessage | None]:
        """Say something again and again, and hand out what is heard meanwhile."""
        said = -REPEAT_S
        while not self.stop.is_set():
            now = self.transport.now()
            if now > deadline:
                raise NotFoundError(f"waited {self.timeout_s:g} s for {what}, which never came")
            if now - said >= REPEAT_S:
                self.voice.say(kind, **fields)
                said = now
            heard = [read_control(text) for text, _ in control.pull(listen_s)]
            yield from heard or (None,)
