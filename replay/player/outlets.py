"""The stage: all streams that one replay shows, and what it says on them."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bci_stream.packet import FloatArray, Lead, Packet
from bci_stream.wire import names
from bci_stream.wire.crypto import seal
from bci_stream.wire.messages import (
    HistoryComplete,
    Message,
    PacketEvent,
    PacketNote,
    RunEvents,
    Status,
    TeamMessageEvent,
    TruthComplete,
    TruthNote,
    TruthProbe,
    encode,
)
from bci_stream.wire.transport import SampleOutlet, Transport
from replay.player.plan import PlaybackPlan

EVENTS_AT_ONCE = 500

ANGLE_ROWS = 6000
"""Truth of ecog is sent in pieces of this many rows, because LSL limits the length of a text."""

ALIVE_EVERY_S = 1.0


Wait = Callable[[Callable[[], None]], bool]
"""Waits for a moment, and calls what it is given shortly before, to warm up; False: it is not to be."""


def no_wait(_warm_up: Callable[[], None]) -> bool:
    """The moment has come already."""
    return True


class ReplayOutlets:
    """Outlets of a replay: control, signal, trigger markers (text and int32), sealed truth.

    Where a track lets each team choose its leads, each team has a signal stream of its own.
    """

    def __init__(
        self,
        transport: Transport,
        contest: str,
        name: str,
        run: str,
        key: bytes,
        program: PlaybackPlan,
        speed: float,
    ) -> None:
        self._transport = transport
        self._contest = contest
        self._name = name
        self._run = run
        self._key = key
        self._program = program
        self._rate = program.rate * speed
        self._stretched = speed != 1.0
        meta = {"track": program.track_name, "run": run}
        self._signals: dict[str, tuple[SampleOutlet, dict[str, list[int]]]] = {}
        self._control = transport.text_outlet(names.text_stream(contest, "control", name, **meta))
        self._truth = transport.text_outlet(names.text_stream(contest, "truth", name))
        self._markers = transport.text_outlet(names.text_stream(contest, "markers", name))
        self._codes = transport.sample_outlet(names.code_stream(contest, name))
        self._meta = meta
        self._alive_at = transport.now()
        self._last_stamp = -math.inf
        self.shares_signal = not (program.track and program.track.choose_leads)
        if self.shares_signal:
            self._open_signal(name, program.leads, {})

    # --- signal streams -----------------------------------------------------------------------

    def signal_for(self, team: str, channels: dict[str, list[int]]) -> str:
        """The source_id of the signal stream that this team is to open."""
        if self.shares_signal:
            return names.source_id(self._contest, "signal", self._name)
        owner = f"{self._name}.{team}"
        if owner not in self._signals:
            count = len(next(iter(channels.values())))
            kind = self._program.track.lead_kind if self._program.track else "EEG"
            slots = tuple(Lead(f"slot{number}", kind) for number in range(1, count + 1))
            self._open_signal(owner, slots, channels)
        return names.source_id(self._contest, "signal", owner)

    def _open_signal(
        self, owner: str, leads: tuple[Lead, ...], channels: dict[str, list[int]]
    ) -> None:
        spec = names.signal_stream(self._contest, owner, self._program.rate, leads, **self._meta)
        self._signals[owner] = (self._transport.sample_outlet(spec), channels)

    def has_consumers(self) -> bool:
        return any(outlet.has_consumers() for outlet, _ in self._signals.values())

    def probe(self) -> None:
        """One row of zeros on each signal stream, before any packet: proves that it is heard."""
        now = self._transport.now()
        for owner, (outlet, _) in self._signals.items():
            width = len(self._program.leads) if self.shares_signal else self._slots(owner)
            outlet.push(np.zeros((1, width + 1), dtype=np.float32), now)

    def _slots(self, owner: str) -> int:
        return len(next(iter(self._signals[owner][1].values())))

    # --- what is said -------------------------------------------------------------------------

    def say(self, message: Message, stamp: float = 0.0) -> None:
        self._control.push(encode(message), stamp)

    def say_alive(self) -> None:
        """Called as often as one likes: once a second it is said that the replay lives."""
        now = self._transport.now()
        if now - self._alive_at > ALIVE_EVERY_S:
            self._alive_at = now
            self.say(Status("alive"))

    def probe_truth(self) -> None:
        self._say_sealed(TruthProbe())

    def truth_is_told(self) -> None:
        """All that is known beforehand has been sent."""
        self._say_sealed(TruthComplete())

    def tell_judge(
        self, team: str, first: int, events: list[PacketEvent | TeamMessageEvent]
    ) -> None:
        """Events, the first of which has this number; in pieces, since one text may not be endless."""
        for k in range(0, len(events), EVENTS_AT_ONCE):
            self._say_sealed(RunEvents(team, first + k, events[k : k + EVENTS_AT_ONCE]))

    def all_retold(self, gone_at: float) -> None:
        self._say_sealed(HistoryComplete(gone_at))

    def tell_truth(
        self, session: int, packet: int, event: dict[str, Any] | None, leads: int
    ) -> None:
        """Truth of a session, or that it is going to be played."""
        it = self._program.sessions[session]
        for piece in [None] if event is None else truth_pieces(event):
            self._say_sealed(
                TruthNote(
                    session,
                    it.subject,
                    packet,
                    it.rate,
                    leads,
                    self._program.packet_samples,
                    it.n_samples,
                    piece,
                )
            )

    def _say_sealed(self, message: Message) -> None:
        self._truth.push(seal(encode(message), self._key, self._run))

    def show(
        self,
        note: PacketNote | None,
        packet: Packet,
        stamp: float,
        wait: Wait = no_wait,
    ) -> float | None:
        """A packet: its samples first, then its note, so that who hears the note has the samples.

        wait: for the packet's moment, when nothing but the push is left to do; nothing is shown
        where it says False. Returns when the first samples left.
        """
        stamps = self._stamps(packet.n, stamp)
        ready = self._ready(packet)

        def push_nothing() -> None:
            for outlet, samples in ready[:1]:  # one is enough: all go the same way
                outlet.push(samples[:0], stamp)

        if not wait(push_nothing):
            return None
        left = [outlet.push(samples, stamps) for outlet, samples in ready]
        if len(self._signals) > len(ready):  # teams that came meanwhile
            for outlet, samples in self._ready(packet)[len(ready) :]:
                outlet.push(samples, stamps)
        if note is not None and self._control.has_consumers():
            self._control.push(encode(note), stamp)
        for offset, code in packet.triggers:
            even = stamp - (packet.n - 1 - offset) / self._rate
            at = even if isinstance(stamps, float) else stamps[offset]
            self._markers.push(str(code), at)
            self._codes.push(np.array([[code]], dtype=np.int32), at)
        return left[0] if left else self._transport.now()

    def _ready(self, packet: Packet) -> list[tuple[SampleOutlet, FloatArray]]:
        """What each signal stream is to send; others may be opened any time, and stand behind them."""
        signals = tuple(self._signals.values())
        return [(outlet, _chosen(packet, leads)) for outlet, leads in signals]

    def _stamps(self, n: int, stamp: float) -> float | list[float]:
        """The last sample's alone is enough where LSL counts back from it by the stream's own rate."""
        step_s = 1 / self._rate
        before, self._last_stamp = self._last_stamp, stamp
        if self._program.live and stamp - (n - 1) * step_s <= before < stamp:
            step_s = (stamp - before) / n  # a device's clock was corrected: none runs backwards
        elif not self._stretched:
            return stamp
        return [stamp - (n - 1 - i) * step_s for i in range(n)]

    def close(self) -> None:
        for outlet in (self._control, self._truth, self._markers, self._codes):
            outlet.close()
        for outlet, _ in self._signals.values():
            outlet.close()


def _chosen(packet: Packet, leads: dict[str, list[int]]) -> FloatArray:
    """The samples of the leads that a team chose for this subject, and the trigger; all where it may not."""
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
    for start in range(0, len(rows), ANGLE_ROWS):
        yield {"angles": rows[start : start + ANGLE_ROWS]}
