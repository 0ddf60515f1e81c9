"""A team's end of the wire: joins a run, receives packets, sends reports, until the last packet."""

import logging
import threading
from collections import deque
from collections.abc import Iterator

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

logger = logging.getLogger(__name__)

SILENCE_S = 30.0
"""A replay sends something at least once a second; after this long without a message it is gone."""

NO_JUDGE_S = 1.5
"""If no judge is found within this time there is none, and the team may leave at once."""

BEHIND_S = 1.0
"""A real-time decoder that is further behind is logged and reported as behind."""


class TeamClient:
    """One team on one run: `join`, then iterate over `stream`, `report` results, and `leave`.

    stopped_early: the replay ended before its last packet.
    """

    def __init__(
        self,
        transport: Transport,
        contest: str,
        team: str,
        token: bytes,
        *,
        stop: threading.Event,
    ) -> None:
        self._transport = transport
        self._publisher = ResultsPublisher(transport, contest, team, token)
        self._judges = StreamGroup(transport, contest, "judge")
        self._stop = stop
        self._received: deque[tuple[ControlMessage, float]] = deque()
        self._received_at = 0.0
        self._last = (PacketNote(-1, 0, 0, 0, 0), 0.0)
        self._judge_polled_at = 0.0
        self._closed = False
        self.stopped_early = False
        self._reported_lag_s = BEHIND_S
        self._run: Joined | None = None

    def join(self, track: str, choose: Choose, timeout_s: float) -> Offer:
        """Find a run of this track and join it; returns when every stream is proven."""
        handshake = Handshake(
            self._transport, self._publisher, track, choose, timeout_s, self._stop
        )
        self._run = handshake.join()
        self._offset_s = self._run.control.clock_offset_s()
        return self._run.offer

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
                    self._publisher.send(PacketRequest, packet=0)
                session = message.index
            elif isinstance(message, PacketNote) and info is not None:
                samples = self._samples(message.i, message.n, stamp)
                if samples is not None:
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
        for i in range(plain.i, plain.i + plain.count):
            stamp += n / self._joined.offer.rate
            if not self._wait_for_samples(n):
                return
            samples = self._samples(i, n, stamp)
            if samples is not None:
                yield Packet(samples, column_triggers(samples), start, before.block, info.subject)
            self._request(i + 1, as_row=i + 1 < plain.i + plain.count)
            start += n
        self._last = (structs.replace(before, i=i, start=start - n, n=n), stamp)

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
            if self._stop.is_set() or self.stopped_early:
                return False
        self._poll_judge(self._transport.now())
        return True

    def report(self, result: object) -> None:
        """Send a result; anything that JSON can represent."""
        self._publisher.send(ReportMessage, result=result)

    def leave(self, reason: str = "finished", detail: str = "", timeout_s: float = 60.0) -> None:
        """End the run, and wait until the judge has logged it (or there is no judge)."""
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
                self._publisher.send(Ready)
                sent_at = now
            self._receive(REPEAT_S)

    def _receive(self, timeout_s: float) -> None:
        """Queue the replay's messages; raises LostError if it is silent for SILENCE_S."""
        for text, stamp in self._joined.control.pull(timeout_s):
            self._received_at = self._transport.now()
            message = read_control(text)
            self._note_state(message)
            self._received.append((message, stamp))
        if self._transport.now() - self._received_at > SILENCE_S:
            raise LostError(
                f"no message from replay {self._joined.replay!r} for {SILENCE_S:g} s; a replay that runs "
                "sends one every second"
            )

    def _note_state(self, message: ControlMessage) -> None:
        replay = self._joined.replay
        if isinstance(message, Stopped):
            logger.warning("replay %s stopped: %s", replay, message.reason)
            self.stopped_early = True
        if isinstance(message, Status) and message.state != "alive":
            state = f"{message.state} {message.detail}".rstrip()
            logger.info("replay %s: %s", replay, state)

    def _samples(self, packet: int, n: int, stamp: float) -> FloatArray | None:
        samples = self._joined.signal.read(n, stamp, SILENCE_S)
        self._report_lag(stamp)
        if samples is None:
            logger.warning(
                "LOST packet %d: %d samples so far. The decoder is too slow for the stream, and LSL "
                "dropped what it did not take in time",
                packet,
                self._joined.signal.missing,
            )
        return samples

    def _report_lag(self, stamp: float) -> None:
        if self._joined.offer.lockstep:
            return
        behind_s = self._transport.now() - stamp - self._offset_s
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
        """Every REPEAT_S: has the judge closed the run, or asked for messages again?"""
        if now - self._judge_polled_at < REPEAT_S:
            return
        self._judge_polled_at = now
        self._judges.look()
        for _, text, _ in self._judges.pull():
            try:
                message = read_judge(text[: -SIGNATURE_LENGTH - 1])
            except WireError:
                continue
            if (
                not isinstance(message, Closed | ResendResults)
                or message.run != self._publisher.run
            ):
                continue
            if message.team == self._publisher.team and isinstance(message, ResendResults):
                self._publisher.resend(message.n)
            elif message.team == self._publisher.team:
                self._closed = True

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
