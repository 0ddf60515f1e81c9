"""Helpers of these tests: a recording that proves its places, and an amplifier in virtual time."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bci_stream.clock import Clock, ManualClock
from bci_stream.packet import Lead, Triggers
from replay.devices.base import DeviceFeed
from replay.devices.chunk import DeviceInfo
from replay.devices.emulator.amplifier import EmulatedAmplifier, WireAction, parse_fault
from replay.devices.emulator.encoders import EmulatedSignal
from replay.devices.live import LiveSession
from replay.devices.manual_triggers import ManualTriggers
from replay.devices.neuracle.connection import Connection
from replay.devices.neuracle.device import NeuracleDevice, Parser
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.jellyfish import JellyfishParser
from replay.devices.neuracle.jellyfish_frames import ACKNOWLEDGE
from replay.devices.neuracle.raw import RawParser
from replay.devices.params import Timeouts
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


def amplifier(source: Recording, protocol: str, faults: Sequence[str] = ()) -> EmulatedAmplifier:
    return EmulatedAmplifier(
        EmulatedSignal(source), protocol, [parse_fault(fault) for fault in faults]
    )


class VirtualConnection:
    """A connection to an amplifier in virtual time; implements `Connection`.

    Waiting advances the manual clock, so tests never sleep. The amplifier's time starts with the first
    connect; `on_end` is called when it has sent everything.
    """

    address = "virtual:8712"

    def __init__(
        self, device: EmulatedAmplifier, clock: ManualClock, segment: int = 1 << 20
    ) -> None:
        self.device, self.clock, self.segment = device, clock, segment
        self.on_end: Callable[[], None] = lambda: None
        self.began: float | None = None
        self.refused_until = 0.0
        self.connects = 0
        self._actions = device.actions()
        self._upcoming: WireAction | None = next(self._actions, None)

    def connect(self, timeout_s: float) -> None:
        self.connects += 1
        self.began = self.clock.now() if self.began is None else self.began
        self._skip_until(self.clock.now())
        if self.clock.now() < self.refused_until:
            raise ConnectionRefusedError(111, "Connection refused")
        self._since = self.clock.now() - self.began
        self._queue = [greeting] if (greeting := self.device.greeting()) else []
        self._ready = not self.device.acknowledged

    def receive(
        self, timeout_s: float, least_bytes: int = 1, period_s: float = 0.0
    ) -> bytes | None:
        """Like the system: waits for so many bytes, or returns what has come in that time."""
        deadline = self.clock.now() + timeout_s
        gathered = b""
        while len(gathered) < least_bytes:
            if gathered and self._ends_next():
                break
            got = self._receive(deadline - self.clock.now())
            if not got:
                return gathered or got
            gathered += got
        return gathered

    def send(self, data: bytes) -> None:
        self._ready = self._ready or ACKNOWLEDGE in data

    def disconnect(self) -> None: ...
    def interrupt(self) -> None: ...

    def _due(self) -> float | None:
        return None if self._upcoming is None else (self.began or 0.0) + self._upcoming.due_s

    def _take(self) -> WireAction:
        action = self._upcoming
        assert action is not None
        self._upcoming = next(self._actions, None)
        if action.kind == "refuse":
            self.refused_until = (self.began or 0.0) + action.until_s
        return action

    def _skip_until(self, now: float) -> None:
        """Drop what was sent while there was no connection."""
        while (due := self._due()) is not None and due < now:
            self._take()
        if self._due() is None:
            self.on_end()

    def _ends_next(self) -> bool:
        """The end of the connection is returned by itself, after what came before it."""
        upcoming = self._upcoming
        return not self._queue and upcoming is not None and upcoming.kind != "send"

    def _receive(self, timeout_s: float) -> bytes | None:
        if self._queue:
            return self._split()
        due, now = self._due(), self.clock.now()
        if due is None:
            self.on_end()
            return None
        if due - now > timeout_s:
            self.clock.advance(timeout_s)
            return None
        self.clock.advance(max(0.0, due - now))
        action = self._take()
        if action.kind == "reset":
            raise ConnectionResetError(104, "Connection reset by peer")
        if action.kind in ("close", "refuse"):
            return b""
        if not self._ready or not action.data or not action.is_for(self._since):
            return None
        self._queue.append(action.data)
        return self._split()

    def _split(self) -> bytes:
        data = self._queue.pop(0)
        if len(data) > self.segment:
            self._queue.insert(0, data[self.segment :])
        return data[: self.segment]


def neuracle_feed(
    connection: Connection,
    make_parser: Callable[[], Parser],
    clock: Clock,
    keeper: StatusKeeper,
    timeouts: Timeouts,
) -> DeviceFeed:
    device = NeuracleDevice(connection, make_parser, clock, keeper, timeouts)
    pause = clock.advance if isinstance(clock, ManualClock) else None
    return DeviceFeed(device, clock, keeper, timeouts, pause)


class Run:
    """A session on a virtual amplifier, played to its end.

    triggered_at_s: when the marks that are put into `marks` were set, from the amplifier's start.
    """

    def __init__(
        self,
        source: Recording,
        protocol: str,
        faults: Sequence[str] = (),
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
        segment: int = 1 << 20,
        parser: Parser | None = None,
        triggered_at_s: float | None = None,
    ) -> None:
        self.clock = ManualClock()
        device = amplifier(source, protocol, faults)
        self.connection = VirtualConnection(device, self.clock, segment)
        self.keeper = StatusKeeper("virtual")
        self.statuses: list[DeviceStatus] = []
        self.keeper.listen(self.statuses.append)

        def make_parser() -> Parser:
            return parser or parser_for(protocol, source.rate, source.leads)

        feed = neuracle_feed(self.connection, make_parser, self.clock, self.keeper, timeouts)
        self.connection.on_end = feed.close
        self.feed = feed
        info = make_parser().info or DeviceInfo(source.rate, source.leads)
        begun = self.clock.now()
        now = self.clock.now if triggered_at_s is None else lambda: begun + triggered_at_s
        self.manual_triggers = ManualTriggers(now)
        self.session = LiveSession("S1", info, feed, self.keeper, self.manual_triggers)

    def packets(self, size: int = 40) -> list[RawPacket]:
        return list(self.iterate(size))

    def iterate(self, size: int = 40) -> Iterator[RawPacket]:
        return self.session.packets(size)

    @property
    def states(self) -> list[str]:
        """The reported states, without repetitions."""
        states = [status.state for status in self.statuses]
        return [s for i, s in enumerate(states) if i == 0 or states[i - 1] != s]

    def details(self) -> str:
        return "\n".join(status.detail for status in self.statuses)


def counters(packets: Sequence[RawPacket]) -> list[int]:
    """What lead 1 counted, over all packets."""
    return [int(value) for packet in packets for value in packet.samples[:, 0]]


def positions(packets: Sequence[RawPacket]) -> list[int]:
    return [packet.start + i for packet in packets for i in range(len(packet.samples))]


def placed_triggers(packets: Sequence[RawPacket]) -> list[tuple[int, int]]:
    return [(packet.start + i, code) for packet in packets for i, code in packet.triggers]
