"""What an amplifier implements (`Device`), and its connection: `DeviceFeed` connects, watches for silence,
reconnects and gives up. `replay.devices.live` makes a source of a feed.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bci_stream.clock import Clock
from bci_stream.errors import SourceError
from bci_stream.wire.transport import Transport
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.manual_triggers import ManualTriggers
from replay.devices.params import DeviceParams, Timeouts
from replay.devices.status import StatusKeeper
from replay.devices.timing import FittedClock, SampleClock
from replay.model.event_map import EventMap

Arrived = tuple[Chunk, float]
"""A chunk and the LSL time at which it was received."""

LOST_CONNECTION = None
"""Stands between chunks where the connection ended: nothing more comes of the samples before it."""


class ConnectionLostError(Exception):
    """The device can't be reached just now, for the reason given; it is connected again."""


class EndOfDataError(Exception):
    """The device has no more data and ends regularly, as a played file does."""


@dataclass(frozen=True)
class DeviceContext:
    """What the opener of a device may use.

    address: the URI between scheme and parameters. transport: this process's LSL, if it has one.
    events: from names of events to codes, for a device that has names.
    """

    address: str
    params: DeviceParams
    timeouts: Timeouts
    clock: Clock
    status: StatusKeeper
    manual_triggers: ManualTriggers
    transport: Transport | None = None
    events: EventMap = field(default_factory=EventMap)


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A line of `bci-replay devices`. rate and leads: numbers, or where they come from."""

    uri: str
    rate: float | str
    leads: int | str
    needs: str
    names: tuple[str, ...] = ()


class Device(ABC):
    """An amplifier. All methods except `interrupt` are called by one thread, the reader.

    name: for messages, such as "the amplifier at 10.0.0.2:8712".
    advice: what the user should check if no samples come.
    silence: describes the state in which the device is connected and sends nothing.
    counts_samples: chunks have the number of lost samples; otherwise gaps are found by time.
    reconnects_when_silent: silence of `Timeouts.dead_s` counts as a lost connection.
    stays_connected: sends nothing before the first `read`, so it can stay connected until then.
    """

    name = "the device"
    advice = "check that it is switched on and connected"
    silence = "the connection is open, but no samples come"
    counts_samples = False
    reconnects_when_silent = True
    stays_connected = False

    @abstractmethod
    def connect(self, timeout_s: float) -> None:
        """Connect within timeout_s. Raises ConnectionLostError (tried again) or SourceError (final)."""

    @abstractmethod
    def describe(self) -> DeviceInfo | None:
        """What the connected device measures; None if more has to be read to know it."""

    @abstractmethod
    def read(self, timeout_s: float, missing: int) -> list[Chunk] | None:
        """Wait at most timeout_s; returns what has come, or None if no sample came.

        The list is empty if all samples that came are held back, for example for their triggers.
        missing: number of samples that the next packet still needs; fewer need not be returned early.
        Raises ConnectionLostError, EndOfDataError, or SourceError if the data are unusable.
        """

    def start(self) -> None:  # noqa: B027 - optional
        """Called once, before the connection from which packets are made."""

    def flush(self) -> list[Chunk]:
        """Samples that were held back when the connection ended."""
        return []

    def disconnect(self) -> None:  # noqa: B027 - optional
        """Release the connection; also called if connecting failed."""

    def close(self) -> None:  # noqa: B027 - optional
        """Release what outlasts a connection; called when reading has ended."""

    def interrupt(self) -> None:  # noqa: B027 - optional
        """End a wait in connect or read that takes longer than 0.5 s; called from any thread."""

    def clock(self, rate: float) -> SampleClock:
        """Stamps the samples."""
        return FittedClock(rate)


class DeviceFeed:
    """Reads one device: reports stalls, reconnects with growing pauses, and gives up in time.

    The thread inside `open` or `chunks` owns the device; `close` may be called from any thread.
    pause: waits so many seconds, but not beyond `close`.
    """

    def __init__(
        self,
        device: Device,
        clock: Clock,
        status: StatusKeeper,
        timeouts: Timeouts,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.device = device
        self._clock, self._status, self._timeouts = clock, status, timeouts
        self._stop = threading.Event()
        self._pause = pause or self._stop.wait
        self._lock = threading.RLock()
        self._is_read = self._connected = False
        self._info: DeviceInfo | None = None
        self._missing: Callable[[], int] = lambda: 1
        self._patience_s = self._deadline = 0.0

    def open(self) -> DeviceInfo:
        """Connect and find out what the device measures; raises SourceError after `first_s`.

        A device that sends at once is disconnected again: what it sends before `chunks` is not used.
        """
        with self._reader(keep_connected=self.device.stays_connected):
            self._wait_at_most(self._timeouts.first_s)
            for _ in self._batches(self._timeouts.first_s):
                self._info = self.device.describe()
                if self._info is not None:
                    return self._info
            raise SourceError(f"the search for {self.device.name} was stopped")

    def chunks(self, missing: Callable[[], int] = lambda: 1) -> Iterator[Arrived | None]:
        """Each chunk with the LSL time at which it was received, until `close` or the device's end.

        LOST_CONNECTION is yielded where the connection ended, before the device is searched again.
        missing: number of samples that the next packet still needs.
        """
        with self._reader():
            self._missing = missing
            self.device.start()
            self._wait_at_most(max(self._timeouts.first_s, self._timeouts.reconnect_s))
            for batch in self._batches(self._timeouts.reconnect_s):
                yield from [LOST_CONNECTION] if batch is None else batch

    def close(self) -> None:
        """End every wait, from any thread."""
        self._stop.set()
        self.device.interrupt()
        with self._lock:
            if not self._is_read:
                self._disconnect()
                self.device.close()

    @contextmanager
    def _reader(self, keep_connected: bool = False) -> Iterator[None]:
        with self._lock:
            self._is_read = True
        try:
            yield
        except BaseException:
            keep_connected = False
            raise
        finally:
            with self._lock:
                self._is_read = False
                if not keep_connected or self._stop.is_set():
                    self._disconnect()
                if self._stop.is_set():
                    self.device.close()

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            self.device.disconnect()

    def _wait_at_most(self, seconds: float) -> None:
        self._patience_s, self._deadline = seconds, self._clock.now() + seconds

    def _left_s(self) -> float:
        """How long the device is still waited for; 0: it is given up."""
        return max(0.0, self._deadline - self._clock.now())

    def _batches(self, reconnect_s: float) -> Iterator[list[Arrived] | None]:
        """The chunks of one connection after another; an empty batch right after each connect.

        None after the last chunk of a connection that was lost.
        """
        failures = 0
        while not self._stop.is_set():
            received = False
            try:
                self._connect()
                yield []
                for batch in self._read():
                    received = True
                    yield batch
                yield from self._flush()
            except EndOfDataError as end:
                yield from self._flush()
                self._status.set_state("ended", str(end))
                return
            except ConnectionLostError as why:
                yield from self._flush()
                if received:
                    yield None
                self._disconnect()
                if self._stop.is_set():
                    return
                if received:
                    failures = 0
                    self._wait_at_most(reconnect_s)
                failures += 1
                self._retry(str(why), failures)

    def _flush(self) -> Iterator[list[Arrived]]:
        if chunks := self.device.flush():
            yield self._arrived(chunks)

    def _connect(self) -> None:
        if not self._connected:
            self._connected = True
            self.device.connect(self._left_s())
        self._check_unchanged()

    def _retry(self, why: str, failures: int) -> None:
        if self._left_s():
            is_new = self._status.samples == 0
            self._status.set_state("connecting" if is_new else "reconnecting", why)
            self._pause(min(self._timeouts.backoff(failures), self._left_s()))
        if not self._left_s() and not self._stop.is_set():
            device = self.device
            raise SourceError(
                f"no samples from {device.name} for {self._patience_s:g} s: {why}; {device.advice}"
            )

    def _read(self) -> Iterator[list[Arrived]]:
        """One connection. Raises ConnectionLostError if it is silent for too long."""
        quiet_since, received = self._clock.now(), False
        stall_s = self._timeouts.stall_s
        while not self._stop.is_set():
            timeout_s = stall_s if received else min(stall_s, self._left_s())
            chunks = self.device.read(timeout_s, self._missing())
            now = self._clock.now()
            self._check_unchanged()
            if chunks is not None:
                quiet_since, received = now, True
                self._status.set_state("connected")
                yield self._arrived(chunks)
            self._watch_silence(now - quiet_since, not received)

    def _watch_silence(self, quiet_s: float, is_first: bool) -> None:
        silence = self.device.silence
        is_dead = quiet_s >= self._timeouts.dead_s and self.device.reconnects_when_silent
        if is_dead or (is_first and not self._left_s()):
            raise ConnectionLostError(f"{silence} ({quiet_s:.1f} s)")
        if quiet_s >= self._timeouts.stall_s:
            self._status.set_state("stalled", silence)

    def _arrived(self, chunks: list[Chunk]) -> list[Arrived]:
        now = self._clock.now()
        return [(chunk, now if chunk.arrival is None else chunk.arrival) for chunk in chunks]

    def _check_unchanged(self) -> None:
        info = self.device.describe()
        if info is None or self._info is None or info is self._info:
            return
        if info != self._info:
            raise SourceError(
                f"{self.device.name} changed its leads or rate since it was found; a stream can't "
                "change: start the replay again"
            )
        self._info = info
