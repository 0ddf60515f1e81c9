"""How a team joins a run: find a replay of its track, join it, and prove every stream.

No sample is lost at the start: the replay sends probes until the team has received one on each of its
streams, and waits for teams that have joined until they are ready. Every wait has a deadline.
"""

import logging
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

logger = logging.getLogger(__name__)

POLL_S = 0.02


def wait_for(
    transport: Transport,
    watch: Watch,
    what: str,
    timeout_s: float,
    stop: threading.Event,
    source_id: str | None = None,
) -> FoundStream:
    """The first stream that a watch finds; with a source_id, the first that has exactly it.

    Raises NotFoundError after timeout_s, or if `stop` is set.
    """
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
    """The error message for a stream that did not appear: what was waited for, and what was found."""
    everything = transport.watch("")
    try:
        seen = sorted({found.name for found in everything.found()})
    finally:
        everything.close()
    streams = ", ".join(seen) if seen else "none"
    return (
        f"waited {timeout_s:g} s for {what}, which never appeared; streams found: {streams}. "
        "Is it started, with the same --contest, --lsl-session and --scope?"
    )


class SignalReader:
    """Reads the samples of a packet; they are matched to its note by their time stamps.

    Samples before the first packet (probes of the handshake, or sent before a late team joined) are
    skipped. missing: samples that were lost, because LSL drops the oldest samples of a slow consumer.
    """

    def __init__(self, inlet: SampleInlet, rate: float) -> None:
        """rate: samples per second on the wire; at a faster pace higher than the recording's."""
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
        """The n samples (n, channels) that end at this stamp; None if some of them are lost.

        Raises LostError if none arrive within timeout_s.
        """
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
        """Skip what is older than the packet; keep what is newer for the next call."""
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
"""A handshake message is repeated after this long, for receivers that were not connected yet."""

EXTRAS = {"plain": True, "asks": True}
"""Optional lockstep features of docs/protocol.md that this client has."""

Choose = Callable[[Offer], dict[str, list[int]]]


@dataclass(frozen=True)
class Joined:
    """A run that a team has joined, and its streams."""

    replay: str
    offer: Offer
    control: TextInlet
    signal: SignalReader
    leads: tuple[Lead, ...]
    channels: dict[str, list[int]]


class NotThisReplayError(WireError):
    """This replay does not take the team; another one may."""


@dataclass(frozen=True)
class Handshake:
    """Joins a run of a track. choose: the leads of each subject, on tracks that let teams choose."""

    transport: Transport
    publisher: ResultsPublisher
    track: str
    choose: Choose
    timeout_s: float
    stop: threading.Event

    def join(self) -> Joined:
        """Join the first run of this track that takes the team.

        Raises NotFoundError after timeout_s, RefusedError if a replay refuses the team.
        """
        deadline = self.transport.now() + self.timeout_s
        watch = self.transport.watch(names.prefix(self.publisher.contest, "control"))
        what = f"a replay of contest {self.publisher.contest!r} on track {self.track!r}"
        refused: dict[str, str] = {}
        try:
            while not self.stop.is_set():
                for found in watch.found():
                    if found.uid not in refused:
                        try:
                            return self._join(found, deadline)
                        except NotThisReplayError as error:
                            refused[found.uid] = str(error)
                            logger.info("%s; still looking", error)
                if self.transport.now() > deadline:
                    missing = describe_missing(self.transport, what, self.timeout_s)
                    raise NotFoundError("; ".join([missing, *refused.values()]))
                self.stop.wait(POLL_S)
        finally:
            watch.close()
        raise NotFoundError(f"stopped while waiting for {what}")

    def _join(self, found: FoundStream, deadline: float) -> Joined:
        replay = names.owner(found.source_id)
        control = self.transport.text_inlet(found, self.timeout_s)
        offer = self._await_offer(control, replay, deadline)
        self.publisher.run = offer.run
        channels = self.choose(offer) if offer.choose else {}
        if offer.lockstep:
            self.publisher.open_requests()
        welcome = self._await_welcome(control, replay, channels, deadline)
        signal, leads = self._open_signal(control, welcome.signal, offer, channels, deadline)
        return Joined(replay, offer, control, signal, leads, channels)

    def _await_offer(self, control: TextInlet, replay: str, deadline: float) -> Offer:
        what = f"an offer of replay {replay!r}"
        for message in self._repeat(control, Hello, deadline, what):
            if isinstance(message, Offer):
                if message.track != self.track:
                    raise NotThisReplayError(
                        f"replay {replay!r} plays track {message.track!r}, not {self.track!r}"
                    )
                return message
        raise NotFoundError(f"stopped while waiting for {what}")

    def _await_welcome(
        self, control: TextInlet, replay: str, channels: dict[str, list[int]], deadline: float
    ) -> Welcome:
        what = f"a welcome of replay {replay!r}"
        team = self.publisher.team
        for message in self._repeat(control, Join, deadline, what, channels=channels, **EXTRAS):
            if isinstance(message, Refused) and message.team == team:
                kind = NotThisReplayError if message.elsewhere else RefusedError
                raise kind(f"replay {replay!r} refused: {message.reason}")
            if isinstance(message, Welcome) and message.team == team:
                if message.proof != proof(self.publisher.run, team, self.publisher.token):
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
        for _ in self._repeat(
            control, Join, deadline, f"a probe on {what}", 0.005, channels=channels, **EXTRAS
        ):
            if len(inlet.pull(1, 0.0)[0]):
                break
        return SignalReader(inlet, offer.rate * offer.speed), inlet.spec.leads[:-1]

    def _repeat(
        self,
        control: TextInlet,
        kind: type[ResultsMessage],
        deadline: float,
        what: str,
        poll_s: float = REPEAT_S / 2,
        **fields: object,
    ) -> Iterator[ControlMessage | None]:
        """Send a message every REPEAT_S, and yield what arrives meanwhile, None if nothing does."""
        sent_at = -REPEAT_S
        while not self.stop.is_set():
            now = self.transport.now()
            if now > deadline:
                raise NotFoundError(f"waited {self.timeout_s:g} s for {what}, which never came")
            if now - sent_at >= REPEAT_S:
                self.publisher.send(kind, **fields)
                sent_at = now
            received = [read_control(text) for text, _ in control.pull(poll_s)]
            yield from received or (None,)
