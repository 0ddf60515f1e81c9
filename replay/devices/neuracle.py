"""A Neuracle amplifier over TCP: found, read, watched, and found again when it goes."""

from collections.abc import Callable, Iterator

from bci_stream.clock import Clock
from bci_stream.errors import SourceError
from replay.devices.chunk import Chunk, DeviceInfo, Parser, merged
from replay.devices.fitted_clock import FittedClock
from replay.devices.link import Dialer, Link, UnknownHostError
from replay.devices.status import StatusKeeper
from replay.devices.trigger_word import MisalignedError
from replay.devices.waits import Waits

PROVEN_S = 10.0
"""A connection that was right for so long lost bytes; a younger misaligned one is set wrong."""

LATE_S = 0.05
"""What an amplifier may be late with a packet before what has come of it is taken as it is."""


class _LinkLostError(Exception):
    """Why a connection ended, or never came to be; it will be dialled again."""


class NeuracleFeed:
    def __init__(
        self,
        dialer: Dialer,
        parser: Callable[[], Parser],
        clock: Clock,
        status: StatusKeeper,
        waits: Waits,
    ) -> None:
        self._dialer, self._make_parser, self._clock = dialer, parser, clock
        self._status, self._waits = status, waits
        self._parser = parser()
        self._missing: Callable[[], int] = lambda: 1
        self._info: DeviceInfo | None = None

    def clock(self, rate: float) -> FittedClock:
        return FittedClock(rate)

    def close(self) -> None:
        self._dialer.close()

    def open(self) -> DeviceInfo:
        """Connect, and read until the amplifier has shown what it sends; then let it go again.

        The stream itself begins on a connection of its own: what would have queued up between the
        two is not sent late, but not at all.
        """
        for _ in self._connections(self._waits.first_s):
            if self._parser.info is not None:
                self._info = self._parser.info
                return self._info
        raise SourceError(f"the search for the amplifier at {self._dialer.address} was stopped")

    def chunks(self, missing: Callable[[], int] = lambda: 1) -> Iterator[tuple[Chunk, float]]:
        """From a parser of its own: what the first look held back is long past."""
        self._parser = self._make_parser()
        self._missing = missing
        return self._connections(self._waits.reconnect_s)

    def _connections(self, patience_s: float) -> Iterator[tuple[Chunk, float]]:
        """The chunks of one connection after another, until closed or out of patience."""
        self._heard = self._clock.now()
        failures = 0
        while not self._dialer.closed:
            before = self._heard
            try:
                yield from self._connection()
            except _LinkLostError as why:
                failures = 1 if self._heard > before else failures + 1
                if self._clock.now() - self._heard >= patience_s:
                    raise SourceError(self._gave_up(str(why), patience_s)) from None
                fresh = self._status.samples == 0
                self._status.tell("connecting" if fresh else "reconnecting", str(why))
                self._dialer.pause(self._waits.backoff(failures))

    def _connection(self) -> Iterator[tuple[Chunk, float]]:
        link = self._dial()
        try:
            yield from self._read(link)
        finally:
            link.close()
            self._parser.restart()

    def _dial(self) -> Link:
        try:
            return self._dialer.dial(self._waits.dial_s)
        except UnknownHostError as error:
            if (
                self._status.samples == 0
            ):  # a typing error is told at once, a lost network waited for
                raise SourceError(f"{error}: check the amplifier's address") from None
            raise _LinkLostError(str(error)) from None
        except OSError as error:
            raise _LinkLostError(f"can't connect: {error.strerror or error}") from None

    def _read(self, link: Link) -> Iterator[tuple[Chunk, float]]:
        began = quiet_since = self._clock.now()
        bytes_came = chunks_came = False
        while not self._dialer.closed:
            data = _receive(link, *self._wanted())
            now = self._clock.now()
            if data:
                bytes_came = True
                chunks = self._parse(data, now - began if chunks_came else 0.0)
                _send(link, self._parser.reply())
                if chunks:
                    chunks_came, quiet_since, self._heard = True, now, now
                    self._status.tell("connected")
                for chunk in merged(chunks):  # a chunk has its price, however small it is
                    yield chunk, now
            self._watch(now - quiet_since, bytes_came and not chunks_came)

    def _wanted(self) -> tuple[float, int, float]:
        """How long to wait for how many bytes, and when they are due: a packet's, but not for much
        longer than it lasts."""
        missing, info = self._missing(), self._parser.info
        if info is None:
            return self._waits.stall_s, 1, 0.0
        packet_s = missing / info.rate
        longest_s = min(self._waits.stall_s, LATE_S + 2 * packet_s)
        return longest_s, self._parser.bytes_for(missing), packet_s

    def _parse(self, data: bytes, right_for_s: float) -> list[Chunk]:
        try:
            chunks = self._parser.feed(data)
        except MisalignedError as error:
            if right_for_s < PROVEN_S:
                raise
            raise _LinkLostError(f"bytes were lost: {error}") from None
        if self._info is not None and self._parser.info not in (None, self._info):
            raise SourceError(
                f"the amplifier at {self._dialer.address} changed its leads or rate since it was "
                "found; a stream can't change: start the replay again"
            )
        self._status.resyncs(self._parser.resyncs)
        for note in self._parser.notes():
            self._status.note(note)
        return chunks

    def _watch(self, quiet_s: float, unreadable: bool) -> None:
        what = (
            "bytes come, but no sample can be read from them" if unreadable else "no samples come"
        )
        if quiet_s >= self._waits.dead_s:
            raise _LinkLostError(f"the connection is open, but {what} for {quiet_s:.1f} s")
        if quiet_s >= self._waits.stall_s:
            self._status.tell("stalled", f"the connection is open, but {what}")

    def _gave_up(self, why: str, patience_s: float) -> str:
        return (
            f"no samples from the amplifier at {self._dialer.address} for {patience_s:g} s: {why}; "
            "check that the recorder runs and is recording or previewing, that its data service "
            "(forwarding) is on, the address, port and firewall, and protocol="
        )


def _receive(link: Link, timeout_s: float, least_bytes: int, period_s: float) -> bytes | None:
    try:
        data = link.receive(timeout_s, least_bytes, period_s)
    except OSError as error:
        raise _LinkLostError(f"connection broken: {error.strerror or error}") from None
    if data == b"":
        raise _LinkLostError("the amplifier closed the connection")
    return data


def _send(link: Link, reply: bytes) -> None:
    if not reply:
        return
    try:
        link.send(reply)
    except OSError as error:
        raise _LinkLostError(f"connection broken: {error.strerror or error}") from None
