"""How a team comes into a run: find a replay of its track, join it, and prove every stream.

Nothing is lost at the start: the replay sends probes until the team has seen one on each of its
streams, and only a team that says it is ready is counted in. Every wait here ends.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import LostError, NotFoundError, RefusedError, WireError
from bci_stream.packet import FloatArray, Lead
from bci_stream.wire import names
from bci_stream.wire.crypto import proof
from bci_stream.wire.messages import (
    ControlMessage,
    Hello,
    Join,
    Offer,
    Refused,
    ResultsMessage,
    Welcome,
    read_control,
)
from bci_stream.wire.results import ResultsPublisher
from bci_stream.wire.transport import FoundStream, SampleInlet, TextInlet, Transport, Watch

POLL_S = 0.02


def wait_for(
    transport: Transport,
    watch: Watch,
    what: str,
    timeout_s: float,
    stop: threading.Event,
    source_id: str | None = None,
) -> FoundStream:
    """The first stream that a watch sees; with a source_id, the one that has exactly it."""
    deadline = transport.now() + timeout_s
    while not stop.is_set():
        for found in watch.found():
            if source_id in (None, found.source_id):
                return found
        if transport.now() > deadline:
            raise NotFoundError(describe_missing(transport, what, timeout_s))
        stop.wait(POLL_S)
    raise NotFoundError(f"stopped while waiting for {what}")


def wait_for_stream(
    transport: Transport, source_id: str, what: str, timeout_s: float, stop: threading.Event
) -> FoundStream:
    watch = transport.watch(source_id)
    try:
        return wait_for(transport, watch, what, timeout_s, stop, source_id)
    finally:
        watch.close()


def describe_missing(transport: Transport, what: str, timeout_s: float) -> str:
    """What to tell a user whose wait was in vain."""
    everything = transport.watch("")
    try:
        seen = sorted({found.name for found in everything.found()})
    finally:
        everything.close()
    streams = ", ".join(seen) if seen else "none"
    return (
        f"waited {timeout_s:g} s for {what}, which never appeared; streams seen here: {streams}. "
        "Is it started, with the same --contest, --lsl-session and --scope?"
    )


class SignalReader:
    """Samples and packet notes carry the same stamps: that is how the two are matched.

    Samples before the first packet (probes of the handshake, or what came before a late joiner's first
    note) are passed over. `missing` counts the samples that never came, since LSL drops the oldest ones
    of a consumer that fell too far behind, in silence.
    """

    def __init__(self, inlet: SampleInlet, rate: float) -> None:
        """rate: samples a second on the wire, which is faster than the recording's at a faster pace."""
        self._inlet = inlet
        self._sample_s = 1.0 / rate
        self._held: FloatArray = np.empty((0, inlet.spec.channels), dtype=np.float32)
        self._held_stamps: NDArray[np.float64] = np.empty(0)
        self.missing = 0

    def ready(self, n: int, timeout_s: float) -> bool:
        """Whether the next n samples are here; waits up to timeout_s for them."""
        if len(self._held) < n:
            more, stamps = self._inlet.pull(n - len(self._held), timeout_s)
            if len(self._held):
                more = np.concatenate([self._held, more])
                stamps = np.concatenate([self._held_stamps, stamps])
            self._held, self._held_stamps = more, stamps
        return len(self._held) >= n

    def read(self, n: int, stamp: float, timeout_s: float) -> FloatArray | None:
        """The n samples (n, channels) that end at this stamp; None where some of them are lost."""
        samples, stamps = self._take(n, timeout_s)
        if len(samples) == n and self._fits(stamps, n, stamp):
            return samples
        return self._search(n, stamp, samples, stamps, timeout_s)

    def _fits(self, stamps: NDArray[np.float64], n: int, stamp: float) -> bool:
        half_s = self._sample_s / 2
        first = stamp - (n - 1) * self._sample_s
        return bool(abs(stamps[-1] - stamp) < half_s and abs(stamps[0] - first) < half_s)

    def _take(self, n: int, timeout_s: float) -> tuple[FloatArray, NDArray[np.float64]]:
        self.ready(n, timeout_s)
        held, stamps = self._held, self._held_stamps
        self._held, self._held_stamps = held[n:], stamps[n:]
        return held[:n], stamps[:n]

    def _search(
        self,
        n: int,
        stamp: float,
        samples: FloatArray,
        stamps: NDArray[np.float64],
        timeout_s: float,
    ) -> FloatArray | None:
        """Pass over what is older than the packet; hold what is newer."""
        end = stamp + self._sample_s / 2
        while len(stamps) and stamps[-1] < stamp - self._sample_s / 2:
            more, more_stamps = self._take(1, timeout_s)
            if not len(more):
                break
            samples = np.concatenate([samples[-n:], more])
            stamps = np.concatenate([stamps[-n:], more_stamps])
        if not len(stamps):
            raise LostError(f"the {n} samples of a packet did not come within {timeout_s:g} s")
        newer = stamps > end
        self._held = np.concatenate([samples[newer], self._held])
        self._held_stamps = np.concatenate([stamps[newer], self._held_stamps])
        found, found_stamps = samples[~newer][-n:], stamps[~newer][-n:]
        if len(found) == n and self._fits(found_stamps, n, stamp):
            return np.ascontiguousarray(found)
        self.missing += n - int(np.sum(found_stamps > stamp - (n - 0.5) * self._sample_s))
        return None


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
    voice: ResultsPublisher
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
                    raise NotFoundError(
                        describe_missing(self.transport, what, self.timeout_s) + said
                    )
                self.stop.wait(POLL_S)
        finally:
            watch.close()
        raise NotFoundError(f"stopped while waiting for {what}")

    def _join(self, found: FoundStream, deadline: float) -> Joined:
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
        return SignalReader(inlet, offer.rate * offer.speed), inlet.spec.leads[:-1]

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
