"""A seat is a team's place in a run: packets in, reports out, until the last packet."""

import threading
from collections import deque
from collections.abc import Callable, Iterator

from msgspec import structs

from bci_stream.errors import LostError, WireError
from bci_stream.packet import FloatArray, Lead, Packet, SignalInfo, column_triggers
from bci_stream.wire.crypto import SIGNATURE_LENGTH
from bci_stream.wire.groups import StreamGroup
from bci_stream.wire.handshake import REPEAT_S, Choose, Handshake, Joined
from bci_stream.wire.messages import (
    Behind,
    Closed,
    ControlMessage,
    Done,
    Offer,
    PacketNote,
    PacketRequest,
    Ready,
    ReportMessage,
    ResendResults,
    SessionStart,
    Status,
    Stopped,
    UnannouncedPackets,
    read_control,
    read_judge,
)
from bci_stream.wire.results import ResultsPublisher
from bci_stream.wire.transport import Transport

SILENCE_S = 30.0
"""A replay says something at least once a second; after this long without a word it is gone."""

NO_JUDGE_S = 1.5
"""Where no judge is seen for this long there is none, and a team may leave at once."""

BEHIND_S = 1.0
"""A real-time consumer that is further behind is told so."""


class TeamClient:
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
        self._voice = ResultsPublisher(transport, contest, team, token)
        self._judges = StreamGroup(transport, contest, "judge")
        self._stop = stop
        self._say = say
        self._heard: deque[tuple[ControlMessage, float]] = deque()
        self._heard_at = 0.0
        self._last = (PacketNote(-1, 0, 0, 0, 0), 0.0)
        self._judge_heard_at = 0.0
        self._closed = False
        self.stopped_early = False
        self._behind_said_s = BEHIND_S
        self._place: Joined | None = None

    def join(self, track: str, choose: Choose, timeout_s: float) -> Offer:
        """Find a run of this track and take part in it; returns when every stream is proven."""
        handshake = Handshake(
            self._transport, self._voice, track, choose, timeout_s, self._stop, self._say
        )
        self._place = handshake.join()
        self._offset_s = self._place.control.clock_offset_s()
        return self._place.offer

    @property
    def _joined(self) -> Joined:
        if self._place is None:
            raise WireError("a seat must join a run before it can be used")
        return self._place

    # --- the run ------------------------------------------------------------------------------

    def stream(self) -> Iterator[SignalInfo | Packet]:
        """Subjects as they begin, and packets as they come; in lockstep each one is asked for."""
        lockstep = self._joined.offer.lockstep
        info: SignalInfo | None = None
        session = -1
        for message, stamp in self._control_messages():
            if isinstance(message, SessionStart) and message.index != session:
                info = self._info(message)
                yield info
                if lockstep and session < 0:
                    self._voice.say(PacketRequest, packet=0)
                session = message.index
            elif isinstance(message, PacketNote) and info is not None:
                samples = self._samples(message.i, message.n, stamp)
                if samples is not None:
                    yield _packet(message, samples, info)
                if message.finish:
                    return
                if lockstep:
                    self._last = (message, stamp)
                    self._voice.say(PacketRequest, packet=message.i + 1)
            elif isinstance(message, UnannouncedPackets) and info is not None:
                yield from self._plain_packets(message, info)

    def _plain_packets(self, plain: UnannouncedPackets, info: SignalInfo) -> Iterator[Packet]:
        """Packets for which no note is sent: each follows from the one before."""
        n = info.packet_samples
        before, stamp = self._last
        start = before.start + before.n
        for i in range(plain.i, plain.i + plain.count):
            stamp += n / self._joined.offer.rate
            if not self._samples_here(n):
                return
            samples = self._samples(i, n, stamp)
            if samples is not None:
                yield Packet(samples, column_triggers(samples), start, before.block, info.subject)
            self._ask(i + 1, within_lot=i + 1 < plain.i + plain.count)
            start += n
        self._last = (structs.replace(before, i=i, start=start - n, n=n), stamp)

    def _ask(self, packet: int, *, within_lot: bool) -> None:
        """An ask is faster; the first packet of a lot is asked for before we know that it is plain."""
        if within_lot:
            self._voice.ask(packet)
        else:
            self._voice.say(PacketRequest, packet=packet)

    def _samples_here(self, n: int) -> bool:
        """Wait for a plain packet's samples; False where the run is over."""
        while not self._joined.signal.ready(n, REPEAT_S):
            self._voice.ask_again()
            self._listen(0.0)
            if self._stop.is_set() or self.stopped_early:
                return False
        self._heed_judge(self._transport.now())
        return True

    def report(self, result: object) -> None:
        self._voice.say(ReportMessage, result=result)

    def leave(self, reason: str = "finished", detail: str = "", timeout_s: float = 60.0) -> None:
        """Say that this is over, and stay until the judge has it in its log (or there is no judge)."""
        if self._place is not None:
            self._voice.say(Done, reason=reason, detail=detail)
            self._await_closed(timeout_s)
        self._judges.close()
        self._voice.close()

    def _control_messages(self) -> Iterator[tuple[ControlMessage, float]]:
        """What the replay says. Until the first session: keep saying that we are ready."""
        started = False
        said = self._heard_at = self._transport.now()
        while not (self._stop.is_set() or self.stopped_early):
            now = self._transport.now()
            self._heed_judge(now)
            if self._heard:
                message, stamp = self._heard.popleft()
                started = started or isinstance(message, SessionStart)
                yield message, stamp
                continue
            if not started and now - said > REPEAT_S:
                self._voice.say(Ready)
                said = now
            self._listen(REPEAT_S)

    def _listen(self, timeout_s: float) -> None:
        """Take in what the replay says; a replay that is silent for long is gone."""
        for text, stamp in self._joined.control.pull(timeout_s):
            self._heard_at = self._transport.now()
            message = read_control(text)
            self._note_state(message)
            self._heard.append((message, stamp))
        if self._transport.now() - self._heard_at > SILENCE_S:
            raise LostError(
                f"no word from replay {self._joined.replay!r} for {SILENCE_S:g} s; it says "
                "something every second while it lives"
            )

    def _note_state(self, message: ControlMessage) -> None:
        replay = self._joined.replay
        if isinstance(message, Stopped):
            self._say(f"replay {replay} stopped: {message.reason}")
            self.stopped_early = True
        if isinstance(message, Status) and message.state != "alive":
            self._say(f"replay {replay}: {message.state} {message.detail}".rstrip())

    def _samples(self, packet: int, n: int, stamp: float) -> FloatArray | None:
        samples = self._joined.signal.read(n, stamp, SILENCE_S)
        self._watch_lag(stamp)
        if samples is None:
            self._say(
                f"LOST packet {packet}: {self._joined.signal.missing} samples so far. The decoder is "
                "too slow for the stream, and LSL dropped what it did not take in time"
            )
        return samples

    def _watch_lag(self, stamp: float) -> None:
        if self._joined.offer.lockstep:
            return
        behind_s = self._transport.now() - stamp - self._offset_s
        if behind_s > self._behind_said_s:
            self._say(f"BEHIND by {behind_s:.1f} s: the decoder is slower than the stream")
            self._voice.say(Behind, seconds=round(behind_s, 3))
            self._behind_said_s = behind_s * 2
        elif behind_s < BEHIND_S / 2 and self._behind_said_s > BEHIND_S:
            self._voice.say(Behind, seconds=0.0)
            self._behind_said_s = BEHIND_S

    def _info(self, session: SessionStart) -> SignalInfo:
        leads = self._joined.leads
        if chosen := self._joined.channels.get(session.subject):
            kind = leads[0].kind
            leads = tuple(Lead(session.leads[number - 1], kind) for number in chosen)
        track = self._joined.offer.track
        return SignalInfo(track, session.subject, session.rate, leads, session.packet_samples)

    # --- the judge ----------------------------------------------------------------------------

    def _heed_judge(self, now: float) -> None:
        """Now and then: has the judge closed our run, or does it want to hear something again?"""
        if now - self._judge_heard_at < REPEAT_S:
            return
        self._judge_heard_at = now
        self._judges.look()
        for _, text, _ in self._judges.pull():
            try:
                message = read_judge(text[: -SIGNATURE_LENGTH - 1])
            except WireError:
                continue
            if not isinstance(message, Closed | ResendResults) or message.run != self._voice.run:
                continue
            if message.team == self._voice.team and isinstance(message, ResendResults):
                self._voice.repeat(message.n)
            elif message.team == self._voice.team:
                self._closed = True

    def _await_closed(self, timeout_s: float) -> None:
        begun = self._transport.now()
        while not (self._stop.is_set() or self._closed):
            now = self._transport.now()
            self._heed_judge(now)
            judged = self._judges.owners or self._judges.gone  # one that has died may come back
            if now - begun > (timeout_s if judged else NO_JUDGE_S):
                return
            self._stop.wait(REPEAT_S / 10)


def _packet(note: PacketNote, samples: FloatArray, info: SignalInfo) -> Packet:
    triggers = tuple(note.triggers)
    return Packet(samples, triggers, note.start, note.block, info.subject, note.finish)
