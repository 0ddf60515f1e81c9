"""A seat is a team's place in a run: the handshake, then packets in and reports out.

Nothing is lost at the start: the replay sends probes until the seat has seen one on each of its
streams, and only a seat that says it is ready is counted in. Every wait here ends.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from bci_stream.errors import LostError, NotFoundError, RefusedError, WireError
from bci_stream.packet import Lead, Packet, SignalInfo
from bci_stream.wire import names
from bci_stream.wire.finding import wait_for, wait_for_stream
from bci_stream.wire.messages import (
    Closed,
    ControlMessage,
    Done,
    Hello,
    Join,
    Next,
    Offer,
    PacketNote,
    Ready,
    Refused,
    Report,
    ResultsMessage,
    Session,
    Status,
    Stopped,
    Welcome,
    encode,
    read_control,
    read_judge,
    speed_of,
)
from bci_stream.wire.signal_reader import SignalReader
from bci_stream.wire.signing import SIGNATURE_LENGTH, proof, sign
from bci_stream.wire.transport import TextInlet, Transport

REPEAT_S = 0.25
"""A handshake message is said again after this long: whoever opens its ears late hears it too."""

SILENCE_S = 30.0
"""A replay says something at least once a second; after this long without a word it is gone."""

NO_JUDGE_S = 1.5
"""Where no judge is seen for this long there is none, and a team may leave at once."""

BEHIND_S = 1.0
"""A real-time consumer that is further behind is told so."""

Choose = Callable[[Offer], dict[str, list[int]]]


class Seat:
    """One team on one run. `say` is told what a person should know."""

    def __init__(
        self,
        transport: Transport,
        contest: str,
        team: str,
        token: bytes,
        *,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._contest = contest
        self.team = names.checked_name(team, "team")
        self._token = token
        self._stop = stop
        self._say = say
        self._run = ""
        # Numbers only ever grow, also when a worker is started again in the middle of a run.
        self._seq = time.time_ns() // 1000
        spec = names.text_stream(contest, "results", team)
        self._results = transport.text_outlet(spec)
        self._inbox: deque[tuple[ControlMessage, float]] = deque()
        self._behind_said_s = BEHIND_S
        self.offer: Offer | None = None

    # --- handshake ----------------------------------------------------------------------------

    def join(self, track: str, choose: Choose, timeout_s: float) -> Offer:
        """Find a run of this track and take part in it; returns when every stream is proven."""
        deadline = self._transport.now() + timeout_s
        self._control, self._replay = self._find_control(timeout_s)
        self._offset_s = self._control.clock_offset_s()
        offer = self._await_offer(track, deadline, timeout_s)
        self.offer, self._run = offer, offer.run
        self._channels = choose(offer) if offer.choose else {}
        welcome = self._await_welcome(deadline, timeout_s)
        self._open_signal(welcome.signal, offer, deadline, timeout_s)
        self._send(Ready)
        return offer

    def _find_control(self, timeout_s: float) -> tuple[TextInlet, str]:
        watch = self._transport.watch(names.prefix(self._contest, "control"))
        try:
            what = f"a replay of contest {self._contest!r}"
            found = wait_for(self._transport, watch, what, timeout_s, self._stop)
            return self._transport.text_inlet(found, timeout_s), names.owner(found.source_id)
        finally:
            watch.close()

    def _await_offer(self, track: str, deadline: float, timeout_s: float) -> Offer:
        what = f"an offer of replay {self._replay!r}"
        for message in self._talk(Hello, deadline, timeout_s, what):
            if isinstance(message, Offer):
                if message.track != track:
                    raise RefusedError(
                        f"replay {self._replay!r} plays track {message.track!r}, not {track!r}: "
                        f"use --track {message.track}, or start the replay that you want"
                    )
                return message
        raise NotFoundError(f"stopped while waiting for {what}")

    def _await_welcome(self, deadline: float, timeout_s: float) -> Welcome:
        what = f"a welcome of replay {self._replay!r}"
        for message in self._talk(Join, deadline, timeout_s, what, channels=self._channels):
            if isinstance(message, Refused) and message.team == self.team:
                raise RefusedError(f"replay {self._replay!r} refused: {message.reason}")
            if isinstance(message, Welcome) and message.team == self.team:
                if message.proof != proof(self._run, self.team, self._token):
                    raise RefusedError(
                        f"replay {self._replay!r} does not know this team's token, so it is not the "
                        "organiser's; check --contest and --token"
                    )
                return message
        raise NotFoundError(f"stopped while waiting for {what}")

    def _open_signal(self, sid: str, offer: Offer, deadline: float, timeout_s: float) -> None:
        found = wait_for_stream(self._transport, sid, f"signal {sid}", timeout_s, self._stop)
        inlet = self._transport.sample_inlet(found, timeout_s)
        what = "a probe on the signal stream"
        for _ in self._talk(Join, deadline, timeout_s, what, channels=self._channels, quick=True):
            samples, _stamps = inlet.pull(1, 0.0)
            if len(samples):
                break
        self._signal = SignalReader(inlet, offer.rate * speed_of(offer.pace))
        self._stream_leads = inlet.spec.leads[:-1]

    def _talk(
        self,
        kind: type[ResultsMessage],
        deadline: float,
        timeout_s: float,
        what: str,
        *,
        channels: dict[str, list[int]] | None = None,
        quick: bool = False,
    ) -> Iterator[ControlMessage | None]:
        """Say something again and again, and hand out what is heard meanwhile."""
        said = -REPEAT_S
        while not self._stop.is_set():
            now = self._transport.now()
            if now > deadline:
                raise NotFoundError(f"waited {timeout_s:g} s for {what}, which never came")
            if now - said >= REPEAT_S:
                self._send(kind, **({} if channels is None else {"channels": channels}))
                said = now
            pending = self._pull_control(0.005 if quick else REPEAT_S / 2)
            yield from (message for message, _ in pending) if pending else (None,)

    # --- the run ------------------------------------------------------------------------------

    def stream(self) -> Iterator[SignalInfo | Packet]:
        """Subjects as they begin, and packets as they come; in lockstep each one is asked for."""
        lockstep = self.offer is not None and self.offer.pace == "lockstep"
        info: SignalInfo | None = None
        wanted = 0
        if lockstep:
            self._await_start()
            self._send(Next, packet=wanted)
        for message, stamp in self._control_messages(repeat_ready=not lockstep):
            if isinstance(message, Session):
                info = self._info(message)
                yield info
            elif isinstance(message, PacketNote) and info is not None:
                packet = self._packet(message, stamp, info)
                if packet is not None:
                    yield packet
                if message.finish:
                    return
                wanted = message.i + 1
                if lockstep:
                    self._send(Next, packet=wanted)

    def report(self, result: object) -> None:
        self._send(Report, result=result)

    def leave(self, reason: str = "finished", detail: str = "", timeout_s: float = 10.0) -> None:
        """Say that this is over, and stay until the judge has it in its log (or there is no judge)."""
        if self._run:
            self._send(Done, reason=reason, detail=detail)
            self._await_closed(timeout_s)
        self._results.close()

    def _await_start(self) -> None:
        """Lockstep: stay ready until the session begins; its message stays in the inbox."""
        for message, stamp in self._control_messages(repeat_ready=True):
            if isinstance(message, Session):
                self._inbox.appendleft((message, stamp))
                return

    def _control_messages(self, *, repeat_ready: bool) -> Iterator[tuple[ControlMessage, float]]:
        started = False
        heard = said = self._transport.now()
        while not self._stop.is_set():
            now = self._transport.now()
            if self._inbox:
                heard = now
                message, stamp = self._inbox.popleft()
                started = started or isinstance(message, Session)
                self._note_state(message)
                yield message, stamp
                continue
            if now - heard > SILENCE_S:
                raise LostError(f"no word from replay {self._replay!r} for {SILENCE_S:g} s")
            if repeat_ready and not started and now - said > REPEAT_S:
                self._send(Ready)
                said = now
            self._inbox.extend(self._pull_control(REPEAT_S))

    def _note_state(self, message: ControlMessage) -> None:
        if isinstance(message, Stopped):
            raise LostError(f"replay {self._replay!r} stopped: {message.reason}")
        if isinstance(message, Status) and message.state != "alive":
            self._say(f"replay {self._replay}: {message.state} {message.detail}".rstrip())

    def _packet(self, note: PacketNote, stamp: float, info: SignalInfo) -> Packet | None:
        samples = self._signal.read(note.n, stamp, SILENCE_S)
        self._watch_lag(stamp)
        if samples is None:
            self._say(
                f"LOST packet {note.i} ({note.n} samples): the decoder is too slow for the stream, "
                f"and LSL dropped what it did not take in time; {self._signal.missing} samples so far"
            )
            return None
        triggers = tuple(note.triggers)
        return Packet(samples, triggers, note.start, note.block, info.subject, note.finish)

    def _watch_lag(self, stamp: float) -> None:
        if self.offer is None or self.offer.pace == "lockstep":
            return
        behind_s = self._transport.now() - stamp - self._offset_s
        if behind_s > self._behind_said_s:
            self._say(f"BEHIND by {behind_s:.1f} s: the decoder is slower than the stream")
            self._behind_said_s = behind_s * 2
        elif behind_s < BEHIND_S / 2:
            self._behind_said_s = BEHIND_S

    def _info(self, session: Session) -> SignalInfo:
        track = self.offer.track if self.offer else ""
        leads = self._stream_leads
        if chosen := self._channels.get(session.subject):
            leads = tuple(Lead(session.leads[number - 1], "ECOG") for number in chosen)
        return SignalInfo(track, session.subject, session.rate, leads, session.packet_samples)

    # --- talking ------------------------------------------------------------------------------

    def _send(self, kind: type[ResultsMessage], **fields: object) -> None:
        self._seq += 1
        message = kind(self._contest, self._run, self.team, self._seq, **fields)  # type: ignore[arg-type]
        self._results.push(sign(encode(message), self._token))

    def _pull_control(self, timeout_s: float) -> list[tuple[ControlMessage, float]]:
        return [(read_control(text), stamp) for text, stamp in self._control.pull(timeout_s)]

    def _await_closed(self, timeout_s: float) -> None:
        watch = self._transport.watch(names.prefix(self._contest, "judge"))
        begun = self._transport.now()
        inlets: dict[str, TextInlet] = {}
        try:
            while not self._stop.is_set():
                waited_s = self._transport.now() - begun
                if waited_s > (timeout_s if inlets else NO_JUDGE_S):
                    return
                for found in watch.found():
                    if found.uid not in inlets:
                        inlets[found.uid] = self._transport.text_inlet(found, 5.0)
                if any(self._is_closed(inlet) for inlet in inlets.values()):
                    return
                self._stop.wait(0.0 if inlets else 0.05)
        except WireError:
            return  # the judge itself has ended: nobody is left to wait for
        finally:
            watch.close()

    def _is_closed(self, inlet: TextInlet) -> bool:
        for text, _ in inlet.pull(0.05):
            message = read_judge(text[: -SIGNATURE_LENGTH - 1])
            if isinstance(message, Closed) and (message.run, message.team) == (
                self._run,
                self.team,
            ):
                return True
        return False
