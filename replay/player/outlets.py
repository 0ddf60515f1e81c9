"""The streams that one replay sends: control (signed), signal, trigger markers and sealed truth."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import structs

from bci_stream.contest.keys import Keys
from bci_stream.packet import FloatArray, Lead, Packet
from bci_stream.wire import names
from bci_stream.wire.crypto import SigningKey, sample_digest, seal_truth
from bci_stream.wire.messages import (
    ControlMessage,
    HistoryComplete,
    JournalEvent,
    Offer,
    PacketNote,
    RunEvents,
    SealedMessage,
    Status,
    Stopped,
    TruthComplete,
    TruthMessage,
    TruthNote,
    TruthProbe,
    Welcome,
    encode,
)
from bci_stream.wire.transport import SampleOutlet, Transport
from replay.player.plan import PlaybackPlan
from replay.transform.masking import MaskedPacket

MAX_EVENTS = 500
MAX_ANGLE_ROWS = 6000
"""Events and rows of angles in one message: the length of a text on LSL is limited."""

ALIVE_EVERY_S = 1.0

Wait = Callable[[Callable[[], None]], bool]
"""Blocks until the packet's deadline, calling its argument (a warm-up) just before it. False: do not send."""


def no_wait(_warm_up: Callable[[], None]) -> bool:
    """Send at once."""
    return True


class ReplayOutlets:
    """Outlets of a replay. They belong to the playing thread.

    Where a track lets each team choose its leads, each team has a signal stream of its own.
    added_samples: by session, of the blocks that are played again.
    """

    def __init__(
        self,
        transport: Transport,
        contest: str,
        name: str,
        run: str,
        keys: Keys,
        plan: PlaybackPlan,
        speed: float,
    ) -> None:
        self._transport = transport
        self._contest = contest
        self._name = name
        self._run = run
        self._truth_key = keys.truth_key()
        self._signing_key: SigningKey = keys.signing_key()
        self._sealed = 0
        self._plan = plan
        self._rate = plan.rate * speed
        self._scaled = speed != 1.0
        meta = {"track": plan.track_name, "run": run}
        self._signals: dict[str, tuple[SampleOutlet, dict[str, list[int]]]] = {}
        self._control = transport.text_outlet(names.text_stream(contest, "control", name, **meta))
        self._truth = transport.text_outlet(names.text_stream(contest, "truth", name))
        self._markers = transport.text_outlet(names.text_stream(contest, "markers", name))
        self._codes = transport.sample_outlet(names.code_stream(contest, name))
        self._meta = meta
        self._alive_at = transport.now()
        self._last_stamp = -math.inf
        self.added_samples: Counter[int] = Counter()
        self.shares_signal = not (plan.track and plan.track.choose_leads)
        if self.shares_signal:
            self._open_signal(name, plan.leads, {})

    # --- signal streams -----------------------------------------------------------------------

    def signal_for(self, team: str, channels: dict[str, list[int]]) -> str:
        """The source_id of this team's signal stream, which is opened where it has one of its own."""
        if self.shares_signal:
            return names.source_id(self._contest, "signal", self._name)
        owner = f"{self._name}.{team}"
        if owner not in self._signals:
            count = len(next(iter(channels.values())))
            kind = self._plan.track.lead_kind if self._plan.track else "EEG"
            slots = tuple(Lead(f"slot{number}", kind) for number in range(1, count + 1))
            self._open_signal(owner, slots, channels)
        return names.source_id(self._contest, "signal", owner)

    @property
    def control_uid(self) -> str:
        return self._control.uid

    def signal_uid(self, source_id: str) -> str:
        """The uid of a signal stream."""
        outlet, _ = self._signals[names.owner(source_id)]
        return outlet.uid

    def _open_signal(
        self, owner: str, leads: tuple[Lead, ...], channels: dict[str, list[int]]
    ) -> None:
        spec = names.signal_stream(self._contest, owner, self._plan.rate, leads, **self._meta)
        self._signals[owner] = (self._transport.sample_outlet(spec), channels)

    def has_consumers(self) -> bool:
        return any(outlet.has_consumers() for outlet, _ in self._signals.values())

    def has_note_readers(self) -> bool:
        return self._control.has_consumers()

    def probe_signals(self) -> None:
        """Push one row of zeros on each signal stream, so that a team can verify its connection."""
        now = self._transport.now()
        for outlet, channels in self._signals.values():
            chosen = next(iter(channels.values()), self._plan.leads)
            outlet.push(np.zeros((1, len(chosen) + 1), dtype=np.float32), now)

    # --- messages -----------------------------------------------------------------------------

    def send(self, message: ControlMessage) -> None:
        """Send a message on the control stream, which everyone can read, and to the judge if it needs it."""
        if not message.run:
            message = structs.replace(message, run=self._run)
        self._control.push(self._signed(message))
        if isinstance(message, Offer | Welcome | Status | Stopped):
            self._send_sealed(message)

    def _signed(self, message: ControlMessage) -> str:
        return self._signing_key.sign(encode(message), "control")

    def send_alive(self) -> None:
        """Send a sign of life, at most one a second however often this is called."""
        now = self._transport.now()
        if now - self._alive_at > ALIVE_EVERY_S:
            self._alive_at = now
            self.send(Status("alive"))

    def probe_truth(self) -> None:
        self._send_sealed(TruthProbe())

    def send_truth_complete(self) -> None:
        """All truth that is known beforehand has been sent."""
        self._send_sealed(TruthComplete())

    def send_events(self, team: str, first: int, events: list[JournalEvent]) -> None:
        """Send events to the judge; `first` is the number of the first one."""
        for k in range(0, len(events), MAX_EVENTS):
            self._send_sealed(RunEvents(team, first + k, events[k : k + MAX_EVENTS]))

    def send_history_complete(self, gone_at: float) -> None:
        self._send_sealed(HistoryComplete(gone_at))

    def send_truth(self, number: int, packet: int, event: dict[str, Any] | None) -> None:
        """Send truth of a session to the judge; None only announces the session."""
        session = self._plan.sessions[number]
        n_samples = session.n_samples
        if n_samples is not None:
            n_samples += self.added_samples[number]
        for piece in [None] if event is None else truth_pieces(event):
            self._send_sealed(
                TruthNote(
                    number,
                    session.subject,
                    packet,
                    session.rate,
                    self._plan.leads_sent,
                    self._plan.packet_samples,
                    n_samples,
                    piece,
                )
            )

    def _send_sealed(self, message: TruthMessage) -> None:
        text = encode(SealedMessage(self._sealed, message))
        self._sealed += 1
        self._truth.push(seal_truth(text, self._truth_key, self._run, self._truth.uid))

    # --- packets ------------------------------------------------------------------------------

    def push_packet(
        self, packet: MaskedPacket, note: PacketNote | None, stamp: float, wait: Wait = no_wait
    ) -> float | None:
        """Push a packet's note, its samples and its triggers.

        The note leaves before `wait`, which waits for the deadline of the samples: a client reads and
        verifies it meanwhile, and then waits for them, as it must in any case, because these are two streams.
        Returns when the first samples left; None where `wait` returned False, and then nothing is sent. A
        packet whose note has left is always sent, because clients wait for it.
        """
        stamps = self._stamps(packet.n, stamp)
        ready = [(outlet, _chosen(packet, leads)) for outlet, leads in self._signals.values()]
        signed = ""
        if note is not None and self.has_note_readers():
            digest = sample_digest(ready[0][1].data) if len(ready) == 1 else ""
            signed = self._signed(structs.replace(note, run=self._run, digest=digest))

        def push_nothing() -> None:
            for outlet, samples in ready[:1]:  # one is enough: all take the same path
                outlet.push(samples[:0], stamp)

        if signed:
            self._control.push(signed, stamp)
        if not (wait(push_nothing) or signed):
            return None
        left = [outlet.push(samples, stamps) for outlet, samples in ready]
        for offset, code, text in packet.markers:
            even = stamp - (packet.n - 1 - offset) / self._rate
            at = even if isinstance(stamps, float) else stamps[offset]
            self._markers.push(text, at)
            self._codes.push(np.array([[code]], dtype=np.int32), at)
        return left[0] if left else self._transport.now()

    def lot_digest(self, packets: Iterable[Packet]) -> str:
        """The digest of the samples of packets that are announced together; there is one signal stream."""
        ((_, leads),) = self._signals.values()
        return sample_digest(*(_chosen(packet, leads).data for packet in packets))

    def _stamps(self, n: int, stamp: float) -> float | list[float]:
        """The last sample's stamp, from which LSL counts back by the stream's rate, or one a sample."""
        step_s = 1 / self._rate
        before, self._last_stamp = self._last_stamp, stamp
        if self._plan.live and stamp - (n - 1) * step_s <= before < stamp:
            step_s = (stamp - before) / n  # the device's clock was corrected: stamps still increase
        elif not self._scaled:
            return stamp
        return [stamp - (n - 1 - i) * step_s for i in range(n)]

    def close(self) -> None:
        for outlet in (self._control, self._truth, self._markers, self._codes):
            outlet.close()
        for outlet, _ in self._signals.values():
            outlet.close()


def _chosen(packet: Packet, leads: dict[str, list[int]]) -> FloatArray:
    """The samples of the leads that a team chose for this subject, and TRIGGER; all if it has no choice."""
    if not leads:
        return packet.samples
    columns = [number - 1 for number in leads[packet.subject]]
    return np.ascontiguousarray(packet.samples[:, [*columns, -1]])


def truth_pieces(truth: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A session's truth in events of limited size; the judge joins them again."""
    rest = {key: value for key, value in truth.items() if key not in ("kind", "angles")}
    if rest or "angles" not in truth:
        yield rest
    rows = truth.get("angles", ())
    for start in range(0, len(rows), MAX_ANGLE_ROWS):
        yield {"angles": rows[start : start + MAX_ANGLE_ROWS]}
