"""A Neuracle amplifier over TCP: found, read, watched, and found again when it goes."""

import re
from collections.abc import Callable, Iterator
from typing import cast
from urllib.parse import urlencode

from bci_stream.clock import Clock, RealClock
from bci_stream.errors import SourceError
from replay.devices.base import LiveSource
from replay.devices.chunk import Chunk, DeviceInfo, Parser, Timeouts, merged
from replay.devices.neuracle.connection import Connection, Dialer, TcpDialer, UnknownHostError
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.jellyfish import HOLD_MS, JellyfishParser
from replay.devices.neuracle.raw import MisalignedError, RawParser, WordKind
from replay.devices.params import DeviceParams, read_live_params, read_montage
from replay.devices.status import RateWatch, StatusKeeper
from replay.devices.timing import FittedClock

LOOKS = 5
"""So many seconds are counted where the first ones are not right: bytes may have queued up, or hang."""

BREAKS = 5
"""A connection that breaks so often before a second has passed is no source for a stream."""

FAR_OFF = 0.05
"""What a second's count may be off by, since chunks come when they like; a wrong row is off by half."""


class RateProbe:
    """said: what the user says of the device."""

    def __init__(self, said: DeviceInfo) -> None:
        self._said = said
        self._watch = RateWatch(LOOKS, FAR_OFF)
        self._breaks = 0

    def is_enough(self, chunk: Chunk, arrival: float) -> bool:
        """Takes the next chunk; raises SourceError where none of the seconds had the rows it should.

        Seconds with too few and others with too many are a link that hangs, not a wrong setting.
        """
        if chunk.lost is None:
            self._connect_again()
        self._watch.took(chunk.n, arrival)
        comes = self._watch.other_than(self._said.rate)
        if comes is not None:
            raise SourceError(_other_rate(self._said, comes))
        return self._watch.agrees_with(self._said.rate) or self._watch.is_full

    def _connect_again(self) -> None:
        """The pause between two connections belongs to no second."""
        self._watch.restart()
        self._breaks += 1
        if self._breaks == BREAKS:
            raise SourceError(
                f"the amplifier's connection broke {BREAKS} times, each time before a second's samples "
                "had come: check the network, and that no other program takes its data"
            )


def _other_rate(said: DeviceInfo, comes: float) -> str:
    rate, leads = said.rate, len(said.leads)
    fitting = comes * (leads + 1) / rate - 1
    return (
        f"about {comes:.0f} samples a second come, rate= says {rate:g}: nothing is published. With "
        f"rate={rate:g} these bytes would be channels={fitting:.0f}, with channels={leads} they would be "
        f"rate={comes:.0f}: check both in the recorder (channels= is the number of leads without the "
        "trigger)"
    )


PROVEN_S = 10.0
"""A connection that was right for so long lost bytes; a younger misaligned one is set wrong."""

LATE_S = 0.05
"""What an amplifier may be late with a packet before what has come of it is taken as it is."""

SILENT = "no samples come"
UNREADABLE = "bytes come, but no sample can be read from them"
IDLE = (
    "the amplifier has only said what it measures and sends no samples: start the recording or the "
    "preview in the recorder"
)


class _LinkLostError(Exception):
    """Why a connection ended, or never came to be; it will be dialled again."""


class NeuracleFeed:
    def __init__(
        self,
        dialer: Dialer,
        parser: Callable[[], Parser],
        clock: Clock,
        status: StatusKeeper,
        waits: Timeouts,
    ) -> None:
        self._dialer, self._make_parser, self._clock = dialer, parser, clock
        self._status, self._waits = status, waits
        self._parser = parser()
        self._missing: Callable[[], int] = lambda: 1
        self._info: DeviceInfo | None = None
        self._heard = self._patience_s = self._later_s = 0.0

    @property
    def counts(self) -> bool:
        return self._parser.counts

    def clock(self, rate: float) -> FittedClock:
        return FittedClock(rate)

    def close(self) -> None:
        self._dialer.close()

    def open(self) -> DeviceInfo:
        """Connect, and read until the amplifier has shown what it sends; then let it go again.

        What is known before a byte has come was said by the user alone, and is looked at closely.
        The stream itself begins on a connection of its own: what would have queued up between the
        two is not sent late, but not at all.
        """
        self._patience_s = self._later_s = self._waits.first_s
        said = self._parser.info
        look = RateProbe(said) if said is not None else None
        for chunk, arrival in self._connections():
            if look is None or look.is_enough(chunk, arrival):
                self._info = self._parser.info
                assert self._info is not None  # a chunk has come
                return self._info
        raise SourceError(f"the search for the amplifier at {self._dialer.address} was stopped")

    def chunks(self, missing: Callable[[], int] = lambda: 1) -> Iterator[tuple[Chunk, float]]:
        """From a parser of its own: what the first look held back is long past."""
        self._parser = self._make_parser()
        self._missing = missing
        self._later_s = self._waits.reconnect_s
        self._patience_s = max(self._waits.first_s, self._later_s)
        return self._connections()

    def _connections(self) -> Iterator[tuple[Chunk, float]]:
        """The chunks of one connection after another, until closed or out of patience."""
        self._heard = self._clock.now()
        failures = 0
        while not self._dialer.closed:
            before = self._heard
            try:
                yield from self._connection()
            except _LinkLostError as why:
                failures = 1 if self._heard > before else failures + 1
                if self._left_s():
                    fresh = self._status.samples == 0
                    self._status.tell("connecting" if fresh else "reconnecting", str(why))
                    self._dialer.pause(min(self._waits.backoff(failures), self._left_s()))
                if not self._left_s() and not self._dialer.closed:
                    raise SourceError(self._gave_up(str(why))) from None

    def _left_s(self) -> float:
        """How long the amplifier is still looked for; 0: it is given up."""
        return max(0.0, self._heard + self._patience_s - self._clock.now())

    def _connection(self) -> Iterator[tuple[Chunk, float]]:
        link = self._dial()
        try:
            yield from self._read(link)
        finally:
            link.close()
            self._parser.restart()

    def _dial(self) -> Connection:
        try:
            return self._dialer.dial(min(self._waits.dial_s, self._left_s()))
        except UnknownHostError as error:
            if (
                self._status.samples == 0
            ):  # a typing error is told at once, a lost network waited for
                raise SourceError(f"{error}: check the amplifier's address") from None
            raise _LinkLostError(str(error)) from None
        except OSError as error:
            raise _LinkLostError(f"can't connect: {error.strerror or error}") from None

    def _read(self, link: Connection) -> Iterator[tuple[Chunk, float]]:
        began = quiet_since = self._clock.now()
        chunks_came, what = False, SILENT
        while not self._dialer.closed:
            stall_s = self._waits.stall_s
            longest_s = stall_s if chunks_came else min(stall_s, self._left_s())
            data = _receive(link, *self._wanted(longest_s))
            now = self._clock.now()
            if data:
                chunks = self._parse(data, now - began if chunks_came else 0.0)
                reply = self._parser.reply()
                _send(link, reply)
                if chunks:
                    chunks_came, what, quiet_since = True, SILENT, now
                    self._heard, self._patience_s = now, self._later_s
                    self._status.tell("connected")
                elif not chunks_came:
                    what = IDLE if reply else UNREADABLE
                for chunk in merged(chunks):  # a chunk has its price, however small it is
                    yield chunk, now
            self._watch(now - quiet_since, what, looking=not chunks_came)

    def _wanted(self, longest_s: float) -> tuple[float, int, float]:
        """How long to wait for how many bytes, and when they are due: a packet's, but not for much
        longer than it lasts."""
        missing, info = self._missing(), self._parser.info
        if info is None:
            return longest_s, 1, 0.0
        packet_s = missing / info.rate
        longest_s = min(longest_s, LATE_S + 2 * packet_s)
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

    def _watch(self, quiet_s: float, what: str, looking: bool) -> None:
        if quiet_s >= self._waits.dead_s or (looking and not self._left_s()):
            raise _LinkLostError(f"the connection is open, but {what} ({quiet_s:.1f} s)")
        if quiet_s >= self._waits.stall_s:
            self._status.tell("stalled", f"the connection is open, but {what}")

    def _gave_up(self, why: str) -> str:
        return (
            f"no samples from the amplifier at {self._dialer.address} for {self._patience_s:g} s: "
            f"{why}; check that the recorder runs and is recording or previewing, that its data "
            "service (forwarding) is on, the address, port and firewall, and protocol="
        )


def _receive(link: Connection, timeout_s: float, least_bytes: int, period_s: float) -> bytes | None:
    try:
        data = link.receive(timeout_s, least_bytes, period_s)
    except OSError as error:
        raise _LinkLostError(f"connection broken: {error.strerror or error}") from None
    if data == b"":
        raise _LinkLostError("the amplifier closed the connection")
    return data


def _send(link: Connection, reply: bytes) -> None:
    if not reply:
        return
    try:
        link.send(reply)
    except OSError as error:
        raise _LinkLostError(f"connection broken: {error.strerror or error}") from None


PORT = 8712
_ADDRESS = re.compile(
    r"(\[(?P<ipv6>[^\[\]]*:[^\[\]]*)\]|(?P<host>[^:\[\]]+))(:(?P<port>[0-9]{0,5}))?"
)

Make = Callable[[], Parser]


def _raw(params: DeviceParams, hold: bool) -> Make:
    channels = params.whole("channels", None, 1, 1024)
    rate = params.number("rate", None, 1, 100_000)
    kind = params.choice("trigger", ("auto", "float", "uint"), "auto")
    leads = read_montage(params.text("montage"), channels)
    assert leads is not None
    forced = None if kind == "auto" else cast(WordKind, kind)
    return lambda: RawParser(DeviceInfo(rate, leads), forced, hold)


def _heeg(params: DeviceParams, hold: bool) -> Make:
    leads = read_montage(params.text("montage"), None)
    return lambda: HeegParser(leads, hold)


def _jellyfish(params: DeviceParams, hold: bool) -> Make:
    leads = read_montage(params.text("montage"), None)
    hold_ms = params.whole("hold_ms", HOLD_MS, 0, 10_000)
    module = params.text("module")
    return lambda: JellyfishParser(module, leads, hold, hold_ms)


PARSERS: dict[str, Callable[[DeviceParams, bool], Make]] = {
    "raw": _raw,
    "heeg": _heeg,
    "jellyfish": _jellyfish,
}


def open_neuracle(rest: str, given: dict[str, str], clock: Clock | None = None) -> LiveSource:
    uri = f"neuracle:{rest}" + (f"?{urlencode(given)}" if given else "")
    host, port = _address(rest)
    params = DeviceParams(f"neuracle:{rest}", given)
    protocol = params.choice("protocol", PARSERS, "raw")
    hold = params.choice("triggers", ("edge", "each"), "edge") == "edge"
    make_parser = PARSERS[protocol](params, hold)
    subject, until, waits = read_live_params(params)
    params.done()
    now = clock or RealClock()
    return LiveSource(
        uri,
        subject,
        lambda keeper, _: NeuracleFeed(TcpDialer(host, port), make_parser, now, keeper, waits),
        until,
        now.now,
    )


def _address(rest: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(rest.removeprefix("//").rstrip("/"))
    if match is None or not 0 < int(match["port"] or PORT) < 65536:
        raise SourceError(
            f"neuracle:{rest} names no amplifier: write neuracle://HOST:PORT, as in "
            f"neuracle://192.168.1.20:{PORT}?protocol=raw&channels=64&rate=1000; an IPv6 address "
            f"stands in brackets: neuracle://[fe80::1%eth0]:{PORT}"
        )
    return match["ipv6"] or match["host"], int(match["port"] or PORT)
