"""How a team joins a run: find a replay of its track, join it, and prove every stream.

With the contest's public key every message of the replay is verified, and the welcome must name the uids of
the streams that are open here: a stream between the replay and the team is refused.

No sample is lost at the start: the replay sends probes until the team has received one on each of its
streams, and waits for teams that have joined until they are ready. Every wait has a deadline.
"""

import logging
import math
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import LostError, NotFoundError, RefusedError, WireError, shorten_list
from bci_stream.packet import FloatArray, Lead
from bci_stream.wire import names
from bci_stream.wire.crypto import PublicKey, proof
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
    source_id: str,
    uid: str = "",
) -> FoundStream:
    """The first stream that a watch finds with this source_id and, if one is given, this uid.

    Raises NotFoundError after timeout_s, or if `stop` is set.
    """
    deadline = transport.now() + timeout_s
    while not stop.is_set():
        for found in watch.found():
            if found.source_id == source_id and uid in ("", found.uid):
                return found
        if transport.now() > deadline:
            raise NotFoundError(describe_missing(transport, what, timeout_s))
        stop.wait(POLL_S)
    raise NotFoundError(f"stopped while waiting for {what}")


def wait_for_stream(
    transport: Transport,
    source_id: str,
    what: str,
    timeout_s: float,
    stop: threading.Event,
    uid: str = "",
) -> FoundStream:
    watch = transport.watch(source_id)
    try:
        return wait_for(transport, watch, what, timeout_s, stop, source_id, uid)
    finally:
        watch.close()


def describe_missing(transport: Transport, what: str, timeout_s: float) -> str:
    """The error message for a stream that did not appear: what was waited for, and what was found."""
    everything = transport.watch("")
    try:
        seen = sorted({found.name for found in everything.found()})
    finally:
        everything.close()
    streams = shorten_list(seen) if seen else "none"
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


class NotThisReplayError(WireError):
    """This replay does not take the team; another one may. again_at: when it may be tried again."""

    def __init__(self, message: str, again_at: float = math.inf) -> None:
        super().__init__(message)
        self.again_at = again_at


class UnverifiedError(NotThisReplayError):
    """Something that claims to be the organiser's is not."""


class ControlReader:
    """Reads a replay's control messages; with a public key only those of this contest's replays count.

    run: once it is set, messages that name another run are refused, too.
    """

    def __init__(self, inlet: TextInlet, replay: str, public_key: PublicKey | None) -> None:
        self._inlet = inlet
        self._replay = replay
        self._public_key = public_key
        self.run = ""

    def pull(self, timeout_s: float) -> list[tuple[ControlMessage, float]]:
        """Messages and their stamps. Raises UnverifiedError for one that does not verify."""
        return [(self._read(text), stamp) for text, stamp in self._inlet.pull(timeout_s)]

    def _read(self, text: str) -> ControlMessage:
        if self._public_key is None:
            return read_control(text)
        plain = self._public_key.verified(text, "control")
        if plain is None:
            raise UnverifiedError(
                f"replay {self._replay!r}: a message on its control stream is not signed by this "
                "contest's key, so it is not the organiser's; is the team file of this contest?"
            )
        message = read_control(plain)
        if self.run and message.run != self.run:
            raise UnverifiedError(
                f"replay {self._replay!r}: a {type(message).__name__} message is of run "
                f"{message.run!r}, not of {self.run!r}: it was copied from another run"
            )
        return message

    def clock_offset_s(self) -> float:
        return self._inlet.clock_offset_s()

    def close(self) -> None:
        self._inlet.close()


REPEAT_S = 0.25
"""A handshake message is repeated after this long, for receivers that were not connected yet."""

OFFER_EVERY_S = 0.5
"""A replay that waits repeats its offer after this long."""

PATIENCE_S, LONGEST_PATIENCE_S = 1.0, 5.0
"""How long a control stream may take to be opened, and to bring an offer, before another one is tried;
doubled with each try. A waiting replay sends two offers a second, so one that never answers costs little."""

OTHERS_S = 1.0
"""How long replays of other contests are looked for when none of the team's own has appeared."""

ASK_AGAIN = "ask the organiser for the team's file (.bci) of this contest"

EXTRAS: dict[str, object] = {"plain": True, "asks": True}
"""Optional lockstep features of docs/protocol.md that this client has."""

Choose = Callable[[Offer], dict[str, list[int]]]


@dataclass(frozen=True)
class Joined:
    """A run that a team has joined, and its streams."""

    replay: str
    offer: Offer
    welcome: Welcome
    control: ControlReader
    signal: SignalReader
    leads: tuple[Lead, ...]
    channels: dict[str, list[int]]


@dataclass(frozen=True)
class Handshake:
    """Joins a run of a track. choose: the leads of each subject, on tracks that let teams choose.

    public_key: the contest's; None if the team has none, and then nothing is verified but the welcome's
    proof.
    """

    transport: Transport
    publisher: ResultsPublisher
    track: str
    choose: Choose
    timeout_s: float
    stop: threading.Event
    public_key: PublicKey | None = None

    def join(self) -> Joined:
        """Join the first run of this track that takes the team.

        Raises NotFoundError after timeout_s, RefusedError if a replay refuses the team.
        """
        deadline = self.transport.now() + self.timeout_s
        watch = self.transport.watch(names.prefix(self.publisher.contest, "control"))
        what = f"a replay of contest {self.publisher.contest!r} on track {self.track!r}"
        refused: dict[str, NotThisReplayError] = {}
        tries: Counter[str] = Counter()
        try:
            while not self.stop.is_set():
                for found in sorted(watch.found(), key=lambda found: tries[found.uid]):
                    error = refused.get(found.uid)
                    if error is not None and self.transport.now() < error.again_at:
                        continue
                    tries[found.uid] += 1
                    patience_s = min(PATIENCE_S * 2 ** (tries[found.uid] - 1), LONGEST_PATIENCE_S)
                    try:
                        return self._join(found, deadline, patience_s)
                    except NotThisReplayError as failure:
                        refused[found.uid] = failure
                        logger.warning("%s; still looking", failure)
                if self.transport.now() > deadline:
                    missing = describe_missing(self.transport, what, self.timeout_s)
                    others = self._other_contests()
                    raise NotFoundError("; ".join([missing, *map(str, refused.values()), *others]))
                self.stop.wait(POLL_S)
        finally:
            watch.close()
        raise NotFoundError(f"stopped while waiting for {what}")

    def _other_contests(self) -> list[str]:
        """A sentence on the replays of other contests that are here, if there are any."""
        watch = self.transport.watch("bci/")
        others: list[str] = []
        deadline = self.transport.now() + OTHERS_S
        try:
            while not others and self.transport.now() < deadline and not self.stop.wait(POLL_S):
                found = {names.contest_of(stream.source_id, "control") for stream in watch.found()}
                others = sorted(found - {"", self.publisher.contest})
        finally:
            watch.close()
        if not others:
            return []
        return [f"there are replays of other contests: {shorten_list(others)}; {ASK_AGAIN}"]

    def _join(self, found: FoundStream, deadline: float, patience_s: float) -> Joined:
        """patience_s: how long the control stream may take to be opened, and to bring an offer."""
        replay = names.owner(found.source_id)
        inlet = self._open_control(found, replay, patience_s)
        control = ControlReader(inlet, replay, self.public_key)
        try:
            offered_by = min(deadline, self.transport.now() + patience_s)
            offer = self._await_offer(control, replay, found.uid, offered_by)
            self.publisher.run = control.run = offer.run
            self.publisher.sealed = self.publisher.sealed or offer.results == "sealed"
            channels = self.choose(offer) if offer.choose else {}
            asks_uid = self.publisher.open_requests() if offer.lockstep else ""
            nonce = secrets.token_hex(16)
            join = {"channels": channels, "nonce": nonce, "asks_uid": asks_uid, **EXTRAS}
            welcome = self._await_welcome(control, replay, join, deadline)
            self._check_welcome(welcome, replay, nonce, found.uid)
            self.publisher.number_from(welcome.n)
            signal, leads = self._open_signal(control, welcome, offer, join, deadline)
        except WireError as error:
            control.close()
            self.publisher.run = ""
            if isinstance(error, NotFoundError | RefusedError | NotThisReplayError):
                raise
            again_at = self._soon() if isinstance(error, LostError) else math.inf
            raise NotThisReplayError(f"replay {replay!r}: {error}", again_at) from error
        return Joined(replay, offer, welcome, control, signal, leads, channels)

    def _open_control(self, found: FoundStream, replay: str, patience_s: float) -> TextInlet:
        try:
            return self.transport.text_inlet(found, patience_s)
        except NotFoundError as error:
            raise NotThisReplayError(
                f"replay {replay!r}: its control stream does not answer within {patience_s:g} s",
                self._soon(),
            ) from error
        except WireError as error:  # no stream of texts: not a replay's
            raise NotThisReplayError(f"replay {replay!r}: {error}") from error

    def _await_offer(self, control: ControlReader, replay: str, uid: str, deadline: float) -> Offer:
        what = f"an offer of replay {replay!r}"
        # Without the team file the offer says how to send: a hello in the wrong form would be rejected.
        delay_s = OFFER_EVERY_S * 1.5 if self.public_key is None else 0.0
        for message in self._repeat(control, Hello, deadline, what, {}, delay_s=delay_s):
            if isinstance(message, Offer):
                if self.public_key is not None and message.control_uid != uid:
                    raise UnverifiedError(
                        f"replay {replay!r}: its offer is for control stream {message.control_uid}, but "
                        f"the one that is open here is {uid}: another program has copied it"
                    )
                if message.track != self.track:
                    raise NotThisReplayError(
                        f"replay {replay!r} plays track {message.track!r}, not {self.track!r}"
                    )
                return message
        raise NotFoundError(f"stopped while waiting for {what}")

    def _soon(self) -> float:
        """When a stream that brought no offer may be tried again."""
        return self.transport.now() + LONGEST_PATIENCE_S

    def _await_welcome(
        self, control: ControlReader, replay: str, join: dict[str, object], deadline: float
    ) -> Welcome:
        what = f"a welcome of replay {replay!r}"
        team = self.publisher.team
        for message in self._repeat(control, Join, deadline, what, join):
            if isinstance(message, Refused) and message.team == team:
                kind = NotThisReplayError if message.elsewhere else RefusedError
                raise kind(f"replay {replay!r} refused: {message.reason}")
            if isinstance(message, Welcome) and message.team == team:
                if message.proof != proof(self.publisher.run, team, self.publisher.token):
                    raise RefusedError(
                        f"replay {replay!r} does not know this team's token, so it is not the "
                        "organiser's; check --contest and --token"
                    )
                if self.public_key is None or message.nonce == join["nonce"]:
                    return message
        raise NotFoundError(f"stopped while waiting for {what}")

    def _check_welcome(self, welcome: Welcome, replay: str, nonce: str, control_uid: str) -> None:
        """Raise UnverifiedError unless the welcome is for this join and this control stream."""
        if self.public_key is None:
            return
        if welcome.nonce != nonce or welcome.control_uid != control_uid:
            raise UnverifiedError(
                f"replay {replay!r}: its welcome is for control stream {welcome.control_uid}, but the "
                f"one that is open here is {control_uid}: another program stands between"
            )

    def _open_signal(
        self,
        control: ControlReader,
        welcome: Welcome,
        offer: Offer,
        join: dict[str, object],
        deadline: float,
    ) -> tuple[SignalReader, tuple[Lead, ...]]:
        what = f"signal {welcome.signal}"
        uid = welcome.signal_uid if self.public_key is not None else ""
        found = wait_for_stream(
            self.transport, welcome.signal, what, self.timeout_s, self.stop, uid
        )
        inlet = self.transport.sample_inlet(found, self.timeout_s)
        if welcome.packet < 0:
            for _ in self._repeat(control, Join, deadline, f"a probe on {what}", join, 0.005):
                if len(inlet.pull(1, 0.0)[0]):
                    break
        return SignalReader(inlet, offer.rate * offer.speed), inlet.spec.leads[:-1]

    def _repeat(
        self,
        control: ControlReader,
        kind: type[ResultsMessage],
        deadline: float,
        what: str,
        fields: dict[str, object],
        poll_s: float = REPEAT_S / 2,
        delay_s: float = 0.0,
    ) -> Iterator[ControlMessage | None]:
        """Send a message every REPEAT_S, and yield what arrives meanwhile, None if nothing does.

        delay_s: how long to wait for an answer before the first message.
        """
        sent_at = self.transport.now() + delay_s - REPEAT_S
        while not self.stop.is_set():
            now = self.transport.now()
            if now > deadline:
                raise NotThisReplayError(f"waited for {what}, which never came", self._soon())
            if now - sent_at >= REPEAT_S:
                self.publisher.send(kind, **fields)
                sent_at = now
            received = [message for message, _ in control.pull(poll_s)]
            for message in received:
                if isinstance(message, Refused) and self.publisher.refused_by(message):
                    raise RefusedError(f"{message.reason}; {ASK_AGAIN}")
            yield from received or (None,)
