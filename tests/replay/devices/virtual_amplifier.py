"""Helpers of these tests: a recording that proves its places, and an amplifier in virtual time."""

from collections.abc import Iterator, Sequence

import numpy as np

from bci_stream.clock import ManualClock
from bci_stream.packet import Lead, Triggers
from replay.devices.base import LiveSession
from replay.devices.chunk import DeviceInfo, Parser, Timeouts
from replay.devices.emulator.amplifier import Amplifier, WireAction, parse_fault
from replay.devices.emulator.encoders import EmulatedSignal
from replay.devices.manual_triggers import ManualTriggers
from replay.devices.neuracle.feed import NeuracleFeed
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.jellyfish import JellyfishParser
from replay.devices.neuracle.jellyfish_frames import ACKNOWLEDGE
from replay.devices.neuracle.raw import RawParser
from replay.devices.status import DeviceStatus, StatusKeeper
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import RawPacket

LEADS = tuple(Lead(name) for name in ("C3", "Cz", "C4"))


def recording(
    seconds: float, rate: int = 1000, triggers: Triggers = (), leads: tuple[Lead, ...] = LEADS
) -> Recording:
    """Lead 1 counts the samples from 1; the others look like EEG."""
    n = round(seconds * rate)
    data = np.random.default_rng(1).normal(0, 20, (n, len(leads))).astype(np.float32)
    data[:, 0] = np.arange(1, n + 1)
    return Recording("S1", rate, leads, [ArrayBlock(data, triggers)])


def parser_for(protocol: str, rate: float, leads: tuple[Lead, ...] = LEADS) -> Parser:
    if protocol.startswith("raw"):
        return RawParser(DeviceInfo(rate, leads))
    return HeegParser() if protocol == "heeg" else JellyfishParser()


def amplifier(source: Recording, protocol: str, faults: Sequence[str] = ()) -> Amplifier:
    return Amplifier(EmulatedSignal(source), protocol, [parse_fault(fault) for fault in faults])


class VirtualDialer:
    """Connections to an amplifier whose time is a manual clock; a `Dialer`.

    Waiting moves the clock, so nothing ever sleeps. The amplifier's time starts with the first
    connection; when it has played all, the dialer closes itself.
    """

    address = "virtual:8712"

    def __init__(self, device: Amplifier, clock: ManualClock, segment: int = 1 << 20) -> None:
        self.device, self.clock, self.segment = device, clock, segment
        self.closed = False
        self.began: float | None = None
        self.refused_until = 0.0
        self.dialled = 0
        self._acts = device.acts()
        self.upcoming: WireAction | None = next(self._acts, None)

    def dial(self, timeout_s: float) -> "VirtualLink":
        self.dialled += 1
        self.began = self.clock.now() if self.began is None else self.began
        self.pass_over(self.clock.now())
        if self.clock.now() < self.refused_until:
            raise ConnectionRefusedError(111, "Connection refused")
        return VirtualLink(self)

    def pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.pass_over(self.clock.now())

    def close(self) -> None:
        self.closed = True

    def due(self) -> float | None:
        return None if self.upcoming is None else (self.began or 0.0) + self.upcoming.due_s

    def take(self) -> WireAction:
        act = self.upcoming
        assert act is not None
        self.upcoming = next(self._acts, None)
        if act.kind == "refuse":
            self.refused_until = (self.began or 0.0) + act.until_s
        return act

    def pass_over(self, now: float) -> None:
        """What was sent while nobody was connected is lost."""
        while (due := self.due()) is not None and due < now:
            self.take()
        self.closed = self.closed or self.due() is None


class VirtualLink:
    def __init__(self, dialer: VirtualDialer) -> None:
        self._dialer = dialer
        self._since = dialer.clock.now() - (dialer.began or 0.0)
        self._queue = [greeting] if (greeting := dialer.device.greeting()) else []
        self._ready = not dialer.device.acknowledged

    def receive(
        self, timeout_s: float, least_bytes: int = 1, period_s: float = 0.0
    ) -> bytes | None:
        """Like the system's own: waits for so many bytes, or gives what has come in that time."""
        deadline = self._dialer.clock.now() + timeout_s
        gathered = b""
        while len(gathered) < least_bytes:
            if gathered and self._breaks_next():
                break
            got = self._receive(deadline - self._dialer.clock.now())
            if not got:
                return gathered or got
            gathered += got
        return gathered

    def _breaks_next(self) -> bool:
        """The connection's end is told by itself, after what came before it."""
        upcoming = self._dialer.upcoming
        return not self._queue and upcoming is not None and upcoming.kind != "send"

    def _receive(self, timeout_s: float) -> bytes | None:
        if self._queue:
            return self._split()
        due, now = self._dialer.due(), self._dialer.clock.now()
        if due is None:
            self._dialer.closed = True
            return None
        if due - now > timeout_s:
            self._dialer.clock.advance(timeout_s)
            return None
        self._dialer.clock.advance(max(0.0, due - now))
        act = self._dialer.take()
        if act.kind == "reset":
            raise ConnectionResetError(104, "Connection reset by peer")
        if act.kind in ("close", "refuse"):
            return b""
        if not self._ready or not act.data or not act.is_for(self._since):
            return None
        self._queue.append(act.data)
        return self._split()

    def _split(self) -> bytes:
        data = self._queue.pop(0)
        if len(data) > self._dialer.segment:
            self._queue.insert(0, data[self._dialer.segment :])
        return data[: self._dialer.segment]

    def send(self, data: bytes) -> None:
        self._ready = self._ready or ACKNOWLEDGE in data

    def close(self) -> None:
        pass


class Run:
    """A session on a virtual amplifier, played to its end.

    marked_at_s: when the marks that are put into `marks` were set, from the amplifier's start.
    """

    def __init__(
        self,
        source: Recording,
        protocol: str,
        faults: Sequence[str] = (),
        waits: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
        segment: int = 1 << 20,
        parser: Parser | None = None,
        marked_at_s: float | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.dialer = VirtualDialer(amplifier(source, protocol, faults), self.clock, segment)
        self.keeper = StatusKeeper("virtual")
        self.told: list[DeviceStatus] = []
        self.keeper.listen(self.told.append)

        def make_parser() -> Parser:
            return parser or parser_for(protocol, source.rate, source.leads)

        feed = NeuracleFeed(self.dialer, make_parser, self.clock, self.keeper, waits)
        self.feed = feed
        info = make_parser().info or DeviceInfo(source.rate, source.leads)
        begun = self.clock.now()
        now = self.clock.now if marked_at_s is None else lambda: begun + marked_at_s
        self.marks = ManualTriggers(now)
        self.session = LiveSession("S1", info, feed, self.keeper, self.marks)

    def packets(self, size: int = 40) -> list[RawPacket]:
        return list(self.iterate(size))

    def iterate(self, size: int = 40) -> Iterator[RawPacket]:
        return self.session.packets(size)

    @property
    def states(self) -> list[str]:
        """The states that were told, each once in a row."""
        states = [status.state for status in self.told]
        return [s for i, s in enumerate(states) if i == 0 or states[i - 1] != s]

    def details(self) -> str:
        return "\n".join(status.detail for status in self.told)


def counters(packets: Sequence[RawPacket]) -> list[int]:
    """What lead 1 counted, over all packets."""
    return [int(value) for packet in packets for value in packet.samples[:, 0]]


def positions(packets: Sequence[RawPacket]) -> list[int]:
    return [packet.start + i for packet in packets for i in range(len(packet.samples))]


def placed_triggers(packets: Sequence[RawPacket]) -> list[tuple[int, int]]:
    return [(packet.start + i, code) for packet in packets for i, code in packet.triggers]
