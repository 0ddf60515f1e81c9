"""A team's end of the wire: joins a run, receives packets, sends reports, until the last packet."""

import logging
import threading
from collections import deque
from collections.abc import Iterator

from msgspec import structs

from bci_stream.errors import LostError, RefusedError, WireError
from bci_stream.packet import FloatArray, Lead, Packet, SignalInfo, column_triggers
from bci_stream.wire.crypto import PublicKey, sample_digest
from bci_stream.wire.groups import StreamGroup
from bci_stream.wire.handshake import (
    ASK_AGAIN,
    REPEAT_S,
    Choose,
    Handshake,
    Joined,
    UnverifiedError,
)
from bci_stream.wire.messages import (
    Behind,
    Closed,
    ControlMessage,
    Done,
    JudgeMessage,
    Offer,
    PacketNote,
    PacketRequest,
    Ready,
    Refused,
    ReportMessage,
    ResendResults,
    SessionStart,
    Status,
    Stopped,
    UnannouncedPackets,
    read_judge,
    software,
)
from bci_stream.wire.results import ResultsPublisher
from bci_stream.wire.transport import Transport
from bci_stream.wire.verify import JudgeVerifier, without_mac

logger = logging.getLogger(__name__)

SILENCE_S = 30.0
"""A replay sends something at least once a second; after this long without a message it is gone."""

NO_JUDGE_S = 1.5
"""If no judge is found within this time there is none, and the team may leave at once."""

ALIVE_S = 1.0
CUT_OFF_S = 1.0
"""A replay sends a message at least once in ALIVE_S; after CUT_OFF_S more without one, that is logged."""

BEHIND_S = 1.0
"""A real-time decoder that is further behind is logged and reported as behind."""

LEAST_WAIT_S = 0.001
"""A client that has waited this long for a message or for samples had processed all that came before."""


class TeamClient:
    """One team on one run: `join`, then iterate over `stream`, `report` results, and `leave`.

    public_key: the contest's; with it everything that replay and judge send is verified. sealed: results are
    encrypted. stopped_early: the replay ended before its last packet, or the judge closed the run before the
    team had left it; stop_reason: why. receipt: the judge's
    signed message that closed the run; empty before that. cut_off_s: how long the longest gap in the replay's
    messages was. behind_s: how late the last packet was taken from the stream; None in lockstep.
    """

    def __init__(
        self,
        transport: Transport,
        contest: str,
        team: str,
        token: bytes,
        *,
        stop: threading.Event,
        public_key: PublicKey | None = None,
        sealed: bool = False,
    ) -> None:
        self._transport = transport
        self._public_key = public_key
        self._publisher = ResultsPublisher(transport, contest, team, token, sealed=sealed)
        self._judges = StreamGroup(transport, contest, "judge")
        self._judge_verifier = None if public_key is None else JudgeVerifier(contest, public_key)
        self._stop = stop
        self._received: deque[tuple[ControlMessage, float]] = deque()
        self._received_at = 0.0
        self._waited_s = 0.0
        self._sent_late_s = 0.0
        self._last = (PacketNote(-1, 0, 0, 0, 0), 0.0)
        self._judge_polled_at = 0.0
        self._closed = self._is_leaving = False
        self.stopped_early = False
        self.stop_reason = ""
        self.receipt = ""
        self.cut_off_s = 0.0
        self.behind_s: float | None = None
        self._reported_lag_s = BEHIND_S
        self._run: Joined | None = None

    def join(self, track: str, choose: Choose, timeout_s: float) -> Offer:
        """Find a run of this track and join it; returns when every stream is proven."""
        handshake = Handshake(
            self._transport,
            self._publisher,
            track,
            choose,
            timeout_s,
            self._stop,
            self._public_key,
        )
        self._run = handshake.join()
        return self._run.offer

    @property
    def team(self) -> str:
        return self._publisher.team

    @property
    def _joined(self) -> Joined:
        if self._run is None:
            raise WireError("a team must join a run before it can receive packets")
        return self._run

    # --- the run ------------------------------------------------------------------------------

    def stream(self) -> Iterator[SignalInfo | Packet]:
        """Yield a SignalInfo when a subject begins, and packets as they arrive.

        In lockstep each packet is requested when the one before it has been processed. Raises LostError
        if the replay is silent for SILENCE_S.
        """
        lockstep = self._joined.offer.lockstep
        info: SignalInfo | None = None
        session = -1
        for message, stamp in self._control_messages():
            if isinstance(message, SessionStart) and message.index != session:
                info = self._info(message)
                yield info
                if lockstep and session < 0:
                    first = max(0, self._joined.welcome.packet)
                    self._publisher.send(PacketRequest, packet=first)
                session = message.index
            elif isinstance(message, PacketNote) and info is not None:
                samples = self._samples(message.i, message.n, stamp)
                if samples is not None:
                    self._check_digest(f"packet {message.i}", message.digest, [samples])
                    yield _packet(message, samples, info)
                if message.finish:
                    return
                if lockstep:
                    self._last = (message, stamp)
                    self._publisher.send(PacketRequest, packet=message.i + 1)
            elif isinstance(message, UnannouncedPackets) and info is not None:
                yield from self._unannounced_packets(message, info)

    def _unannounced_packets(self, plain: UnannouncedPackets, info: SignalInfo) -> Iterator[Packet]:
        """Packets for which no note is sent: each follows from the one before."""
        n = info.packet_samples
        before, stamp = self._last
        start = before.start + before.n
        received: list[FloatArray] = []
        for i in range(plain.i, plain.i + plain.count):
            stamp += n / self._joined.offer.rate
            if not self._wait_for_samples(n):
                return
            samples = self._samples(i, n, stamp)
            if samples is not None:
                received.append(samples)
                if i == plain.i + plain.count - 1 and len(received) == plain.count:
                    what = f"packets {plain.i} to {i}"
                    self._check_digest(what, plain.digest, received)
                yield Packet(samples, column_triggers(samples), start, before.block, info.subject)
            self._request(i + 1, as_row=i + 1 < plain.i + plain.count)
            start += n
        self._last = (structs.replace(before, i=i, start=start - n, n=n), stamp)

    def _check_digest(self, what: str, digest: str, samples: list[FloatArray]) -> None:
        """Raise UnverifiedError if samples are not those that the replay has signed."""
        if self._public_key is None or not digest:
            return
        if sample_digest(*(chunk.data for chunk in samples)) != digest:
            raise UnverifiedError(
                f"the samples of {what} are not those that the replay signed: another program has "
                "changed them, or sends a signal stream of the same name"
            )

    def _request(self, packet: int, *, as_row: bool) -> None:
        """Request a packet: as a row of numbers, which is faster, if it is known to be unannounced."""
        if as_row:
            self._publisher.request_packet(packet)
        else:
            self._publisher.send(PacketRequest, packet=packet)

    def _wait_for_samples(self, n: int) -> bool:
        """Wait for n samples; returns False if the run is over."""
        while not self._joined.signal.ready(n, REPEAT_S):
            self._publisher.repeat_request()
            self._receive(0.0)
            self._poll_judge(self._transport.now())
            if self._stop.is_set() or self.stopped_early:
                return False
        self._poll_judge(self._transport.now())
        return True

    def report(self, result: object) -> None:
        """Send a result; anything that JSON can represent."""
        self._publisher.send(ReportMessage, result=result)

    def leave(self, reason: str = "finished", detail: str = "", timeout_s: float = 60.0) -> None:
        """End the run, and wait until the judge has logged it (or there is no judge)."""
        self._is_leaving = True
        if self._run is not None:
            self._publisher.send(Done, reason=reason, detail=detail)
            self._wait_for_closed(timeout_s)
        self._judges.close()
        self._publisher.close()

    def _control_messages(self) -> Iterator[tuple[ControlMessage, float]]:
        """The replay's messages; until the first session begins, `ready` is repeated."""
        started = False
        sent_at = self._received_at = self._transport.now()
        while not (self._stop.is_set() or self.stopped_early):
            now = self._transport.now()
            self._poll_judge(now)
            if self._received:
                message, stamp = self._received.popleft()
                started = started or isinstance(message, SessionStart)
                yield message, stamp
                continue
            if not started and now - sent_at > REPEAT_S:
                self._publisher.send(Ready, software=software())
                sent_at = now
            self._receive(REPEAT_S)

    def _receive(self, timeout_s: float) -> None:
        """Queue the replay's messages; raises LostError if it is silent for SILENCE_S."""
        begun = self._transport.now()
        messages = self._joined.control.pull(timeout_s)
        waited_s = self._transport.now() - begun
        self._waited_s += waited_s
        if messages:
            self._note_gap(self._waited_s)
            notes = [stamp for message, stamp in messages if isinstance(message, PacketNote)]
            if notes and waited_s > LEAST_WAIT_S:
                self._note_late_sending(notes[0])
            self._waited_s = 0.0
            self._received_at = self._transport.now()
        for message, stamp in messages:
            self._note_state(message)
            self._received.append((message, stamp))
        if self._transport.now() - self._received_at > SILENCE_S:
            raise LostError(
                f"no message from replay {self._joined.replay!r} for {SILENCE_S:g} s; a replay that runs "
                "sends one every second"
            )

    def _note_late_sending(self, stamp: float) -> None:
        """This client has waited: as far as that explains it, a late packet is not its decoder's doing."""
        late_s = max(0.0, self._late_s(stamp))
        if late_s < self._sent_late_s + self._waited_s + CUT_OFF_S / 10:
            self._sent_late_s = late_s

    def _late_s(self, stamp: float) -> float:
        return self._transport.now() - stamp - self._joined.control.clock_offset_s()

    def _note_gap(self, silent_s: float) -> None:
        """Log a gap between two messages; silent_s: how long this client has waited for the second one."""
        if silent_s > CUT_OFF_S + ALIVE_S:
            self.cut_off_s = max(self.cut_off_s, silent_s)
            logger.warning(
                "CUT OFF for %.1f s: nothing came from replay %s. The connection or the replay stood "
                "still, not the decoder",
                silent_s,
                self._joined.replay,
            )

    def _note_state(self, message: ControlMessage) -> None:
        replay = self._joined.replay
        if isinstance(message, Refused) and self._publisher.refused_by(message):
            self._closed = True  # nothing that this client sends is taken any more
            raise RefusedError(f"{message.reason}; {ASK_AGAIN}")
        if isinstance(message, Stopped):
            logger.warning("replay %s stopped: %s", replay, message.reason)
            self.stopped_early, self.stop_reason = True, message.reason
        if isinstance(message, Status) and message.state != "alive":
            state = f"{message.state} {message.detail}".rstrip()
            logger.info("replay %s: %s", replay, state)

    def _samples(self, packet: int, n: int, stamp: float) -> FloatArray | None:
        begun = self._transport.now()
        samples = self._joined.signal.read(n, stamp, SILENCE_S)
        waited_s = self._transport.now() - begun
        self._waited_s += waited_s
        if waited_s > LEAST_WAIT_S:
            self._note_late_sending(stamp)
        self._report_lag(stamp)
        if samples is None:
            logger.warning(
                "LOST packet %d: %d samples so far. %s",
                packet,
                self._joined.signal.missing,
                "The connection to the replay was cut for a while"
                if self.cut_off_s
                else "The decoder is too slow for the stream, and LSL dropped what it did not take "
                "in time",
            )
        return samples

    def _report_lag(self, stamp: float) -> None:
        if self._joined.offer.lockstep:
            return
        behind_s = self.behind_s = self._late_s(stamp) - self._sent_late_s
        if behind_s > self._reported_lag_s:
            logger.warning("BEHIND by %.1f s: the decoder is slower than the stream", behind_s)
            self._publisher.send(Behind, seconds=round(behind_s, 3))
            self._reported_lag_s = behind_s * 2
        elif behind_s < BEHIND_S / 2 and self._reported_lag_s > BEHIND_S:
            self._publisher.send(Behind, seconds=0.0)
            self._reported_lag_s = BEHIND_S

    def _info(self, session: SessionStart) -> SignalInfo:
        leads = self._joined.leads
        if chosen := self._joined.channels.get(session.subject):
            kind = leads[0].kind
            leads = tuple(Lead(session.leads[number - 1], kind) for number in chosen)
        track = self._joined.offer.track
        return SignalInfo(track, session.subject, session.rate, leads, session.packet_samples)

    # --- the judge ----------------------------------------------------------------------------

    def _poll_judge(self, now: float) -> None:
        """Every REPEAT_S: has the judge closed the run, or asked for messages again?

        Read at every call while a stream is not verified, so that a flood on it is closed before it fills
        memory; new streams are looked for every REPEAT_S only, since this is called for each packet.
        """
        if now - self._judge_polled_at >= REPEAT_S:
            self._judge_polled_at = now
            self._judges.look()
        elif not self._judges.has_unverified:
            return
        for uid, _, text, _ in self._judges.pull():
            message = self._read_judge(text, uid)
            if message is None:
                self._judges.reject(uid)
                continue
            self._judges.accept(uid)
            if isinstance(message, Closed | ResendResults) and message.run == self._publisher.run:
                self._handle_judge(message, text)

    def _read_judge(self, text: str, uid: str) -> JudgeMessage | None:
        """Without the contest's public key nothing can be verified, and every judge counts."""
        if self._judge_verifier is not None:
            return self._judge_verifier.verify(text, uid)
        try:
            return read_judge(without_mac(text))
        except WireError:
            return None

    def _handle_judge(self, message: Closed | ResendResults, text: str) -> None:
        if message.team != self._publisher.team:
            return
        if isinstance(message, ResendResults):
            self._publisher.resend(message.n)
            self._publisher.send(
                Ready, software=software()
            )  # shows that there is nothing more to come
        else:
            is_news, self._closed = not self._closed, True
            self.receipt = without_mac(text)
            if is_news and not self._is_leaving and self._judge_verifier is not None:
                self.stopped_early = True
                self.stop_reason = f"the judge has closed the run: {message.reason}"
                logger.warning("%s; what is reported from now on does not count", self.stop_reason)

    def _wait_for_closed(self, timeout_s: float) -> None:
        begun = self._transport.now()
        while not (self._stop.is_set() or self._closed):
            now = self._transport.now()
            self._poll_judge(now)
            judged = self._judges.owners or self._judges.gone  # one that has died may come back
            if now - begun > (timeout_s if judged else NO_JUDGE_S):
                return
            self._stop.wait(REPEAT_S / 10)


def _packet(note: PacketNote, samples: FloatArray, info: SignalInfo) -> Packet:
    triggers = tuple(note.triggers)
    return Packet(samples, triggers, note.start, note.block, info.subject, note.finish)
