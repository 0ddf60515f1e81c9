"""Neuracle amplifiers over TCP: `neuracle://HOST:PORT?protocol=raw|heeg|jellyfish`."""

import re
from collections.abc import Callable
from typing import Protocol, cast

import numpy as np

from bci_stream.clock import Clock
from bci_stream.errors import SourceError
from replay.devices.base import ConnectionLostError, Device, DeviceContext, DeviceRow
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.neuracle.connection import Connection, TcpConnection, UnknownHostError
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.jellyfish import HOLD_MS, JellyfishParser
from replay.devices.neuracle.raw import MisalignedError, RawParser, WordKind
from replay.devices.params import Timeouts, apply_montage, default_leads, read_montage
from replay.devices.status import RateWatch, StatusKeeper

PROBE_WINDOWS = 5
"""Seconds that are counted if the first one is not right: data may have queued up."""

PROBE_TOLERANCE = 0.05
"""Tolerance of a second's count, since chunks come irregularly; a wrong row width is off by half."""

MOST_BREAKS = 5
"""A connection that breaks so often before a second has passed is given up."""

PROVEN_S = 10.0
"""Misaligned bytes after this time were lost on the way; before it, the parameters are wrong."""

LATE_S = 0.05
"""How late a packet's bytes may be before those that have come are taken."""

SILENT = "the connection is open, but no samples come"
UNREADABLE = "the connection is open, but bytes come from which no sample can be read"
IDLE = (
    "the connection is open, but the amplifier only describes itself and sends no samples: start the "
    "recording or the preview in the recorder"
)


class Parser(Protocol):
    """Turns bytes into chunks; the samples are the same for any split of the bytes.

    counts: whether the format tells how many samples are missing.
    """

    counts: bool

    @property
    def info(self) -> DeviceInfo | None:
        """None until the device has described itself."""

    @property
    def resyncs(self) -> int:
        """How often bytes were skipped to find the next frame."""

    def feed(self, data: bytes) -> list[Chunk]:
        """Add received bytes; returns the chunks that are complete. Raises SourceError."""

    def bytes_for(self, samples: int) -> int:
        """The least number of further bytes that bring so many samples; 1 if unknown."""

    def reply(self) -> bytes:
        """What the device expects from its client now; mostly empty."""

    def flush(self) -> list[Chunk]:
        """The connection ended: the samples that wait for their triggers."""

    def restart(self) -> None:
        """A new connection begins: drop the unfinished frame."""


class RateProbe:
    """Compares the samples of a second with the rate that the user gave, before anything is published."""

    def __init__(self, given: DeviceInfo) -> None:
        self._given = given
        self._watch = RateWatch(PROBE_WINDOWS, PROBE_TOLERANCE)
        self._breaks = 0
        self.passed = False

    def add(self, chunk: Chunk, arrival: float) -> None:
        """Add the next chunk. Raises SourceError if no window had the samples it should.

        Windows with too few samples and others with too many are an irregular network.
        """
        if chunk.lost is None:
            self._count_break()
        self._watch.count(chunk.n, arrival)
        rate = self._given.rate
        observed = self._watch.other_than(rate)
        if observed is not None:
            raise SourceError(_wrong_rate(self._given, observed))
        self.passed = self._watch.agrees_with(rate) or self._watch.is_full

    def _count_break(self) -> None:
        self._watch.restart()  # the pause between two connections belongs to no window
        self._breaks += 1
        if self._breaks == MOST_BREAKS:
            raise SourceError(
                f"the amplifier's connection broke {MOST_BREAKS} times, each time in its first second: "
                "check the network, and that no other program takes its data"
            )


def _wrong_rate(given: DeviceInfo, observed: float) -> str:
    rate, leads = given.rate, len(given.leads)
    fitting = observed * (leads + 1) / rate - 1
    return (
        f"about {observed:.0f} samples a second come, rate= is {rate:g}: nothing is published. With "
        f"rate={rate:g} these bytes would be channels={fitting:.0f}, with channels={leads} they would "
        f"be rate={observed:.0f}: check both in the recorder (channels= is the number of leads without "
        "the trigger)"
    )


class NeuracleDevice(Device):
    """parser: makes a parser; one whose `info` is known at once has it from the user, not the device."""

    advice = (
        "check that the recorder runs and is recording or previewing, that its data service "
        "(forwarding) is on, the address, port and firewall, and protocol="
    )

    def __init__(
        self,
        connection: Connection,
        parser: Callable[[], Parser],
        clock: Clock,
        status: StatusKeeper,
        timeouts: Timeouts,
    ) -> None:
        self.name = f"the amplifier at {connection.address}"
        self._connection, self._make_parser, self._clock = connection, parser, clock
        self._status, self._timeouts = status, timeouts
        self._parser = parser()
        self.counts_samples = self._parser.counts
        given = self._parser.info
        self._probe = RateProbe(given) if given is not None else None
        self._received = self._has_fed = self._started = False
        self._connected_at = 0.0

    def start(self) -> None:
        """Use a new parser: the samples that the other one still holds are old by now."""
        self._parser, self._probe = self._make_parser(), None
        self._started, self._has_fed = True, False

    def connect(self, timeout_s: float) -> None:
        self.silence, self._received = SILENT, False
        if self._has_fed:
            self._parser.restart()
        try:
            self._connection.connect(min(self._timeouts.dial_s, timeout_s))
        except UnknownHostError as error:
            if self._status.samples == 0:  # probably a typing error, so don't wait
                raise SourceError(f"{error}: check the amplifier's address") from None
            raise ConnectionLostError(str(error)) from None
        except OSError as error:
            raise ConnectionLostError(f"can't connect: {error.strerror or error}") from None
        self._connected_at = self._clock.now()

    def flush(self) -> list[Chunk]:
        return self._parser.flush()

    def disconnect(self) -> None:
        self._connection.disconnect()

    def interrupt(self) -> None:
        self._connection.interrupt()

    def describe(self) -> DeviceInfo | None:
        is_known = self._started or (self._received and (not self._probe or self._probe.passed))
        return self._parser.info if is_known else None

    def read(self, timeout_s: float, missing: int) -> list[Chunk] | None:
        data = self._receive(*self._wanted(timeout_s, missing))
        arrival = self._clock.now()
        if not data:
            return None
        chunks = self._parse(data, arrival)
        reply = self._parser.reply()
        self._send(reply)
        if chunks:
            self._received, self.silence = True, SILENT
        elif not self._received:
            self.silence = IDLE if reply else UNREADABLE
        if self._probe is not None:
            for chunk in chunks:
                self._probe.add(chunk, arrival)
        return _merge(chunks, arrival) or None

    def _wanted(self, timeout_s: float, missing: int) -> tuple[float, int, float]:
        """Timeout, number of bytes and when they are due: for a packet, but not much longer."""
        info = self._parser.info
        if info is None:
            return timeout_s, 1, 0.0
        packet_s = missing / info.rate
        timeout_s = min(timeout_s, LATE_S + 2 * packet_s)
        return timeout_s, self._parser.bytes_for(missing), packet_s

    def _receive(self, timeout_s: float, least_bytes: int, period_s: float) -> bytes | None:
        try:
            data = self._connection.receive(timeout_s, least_bytes, period_s)
        except OSError as error:
            raise ConnectionLostError(f"connection broken: {error.strerror or error}") from None
        if data == b"":
            raise ConnectionLostError("the amplifier closed the connection")
        return data

    def _send(self, reply: bytes) -> None:
        try:
            if reply:
                self._connection.send(reply)
        except OSError as error:
            raise ConnectionLostError(f"connection broken: {error.strerror or error}") from None

    def _parse(self, data: bytes, now: float) -> list[Chunk]:
        self._has_fed = True
        try:
            chunks = self._parser.feed(data)
        except MisalignedError as error:
            if not self._received or now - self._connected_at < PROVEN_S:
                raise
            raise ConnectionLostError(f"bytes were lost: {error}") from None
        self._status.set_resyncs(self._parser.resyncs)
        return chunks


def _merge(chunks: list[Chunk], arrival: float) -> list[Chunk]:
    """The same samples in fewer chunks: those without a gap between them become one."""
    runs: list[list[Chunk]] = []
    for chunk in chunks:
        if runs and chunk.lost == 0:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return [_joined(run, arrival) for run in runs]


def _joined(run: list[Chunk], arrival: float) -> Chunk:
    triggers: list[tuple[int, int]] = []
    before = 0
    for chunk in run:
        triggers += [(before + offset, code) for offset, code in chunk.triggers]
        before += chunk.n
    samples = run[0].samples
    if len(run) > 1:
        samples = np.concatenate([chunk.samples for chunk in run])
    return Chunk(samples, tuple(triggers), run[0].lost, newer=run[-1].newer, arrival=arrival)


PORT = 8712
_ADDRESS = re.compile(
    r"(\[(?P<ipv6>[^\[\]]*:[^\[\]]*)\]|(?P<host>[^:\[\]]+))(:(?P<port>[0-9]{0,5}))?"
)

ParserMaker = Callable[[], Parser]


def _raw(context: DeviceContext, hold: bool) -> ParserMaker:
    params = context.params
    channels = params.whole("channels", None, 1, 1024)
    rate = params.number("rate", None, 1, 100_000)
    kind = params.choice("trigger", ("auto", "float", "uint"), "auto")
    leads = apply_montage(read_montage(params.text("montage")), default_leads(channels))
    forced = None if kind == "auto" else cast(WordKind, kind)
    return lambda: RawParser(DeviceInfo(rate, leads), forced, hold)


def _heeg(context: DeviceContext, hold: bool) -> ParserMaker:
    montage = read_montage(context.params.text("montage"))
    return lambda: HeegParser(montage, hold, context.status.note_once)


def _jellyfish(context: DeviceContext, hold: bool) -> ParserMaker:
    montage = read_montage(context.params.text("montage"))
    hold_ms = context.params.whole("hold_ms", HOLD_MS, 0, 10_000)
    module = context.params.text("module")
    return lambda: JellyfishParser(module, montage, hold, hold_ms, context.status.note_once)


PARSERS: dict[str, Callable[[DeviceContext, bool], ParserMaker]] = {
    "raw": _raw,
    "heeg": _heeg,
    "jellyfish": _jellyfish,
}


def make_device(context: DeviceContext) -> NeuracleDevice:
    host, port = _address(context.address)
    protocol = context.params.choice("protocol", PARSERS, "raw")
    hold = context.params.choice("triggers", ("edge", "each"), "edge") == "edge"
    parser = PARSERS[protocol](context, hold)
    connection = TcpConnection(host, port)
    return NeuracleDevice(connection, parser, context.clock, context.status, context.timeouts)


def device_rows() -> list[DeviceRow]:
    uri = f"neuracle://HOST:{PORT}?protocol="
    return [
        DeviceRow(f"{uri}raw", "given", "given", "channels, rate; montage"),
        DeviceRow(f"{uri}heeg", "sent", "sent", "montage (for names)"),
        DeviceRow(f"{uri}jellyfish", "sent", "sent", "nothing; module where several"),
    ]


def _address(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text.removeprefix("//").rstrip("/"))
    if match is None or not 0 < int(match["port"] or PORT) < 65536:
        raise SourceError(
            f"neuracle:{text} names no amplifier: write neuracle://HOST:PORT, as in "
            f"neuracle://192.168.1.20:{PORT}?protocol=raw&channels=64&rate=1000; an IPv6 address "
            f"stands in brackets: neuracle://[fe80::1%eth0]:{PORT}"
        )
    return match["ipv6"] or match["host"], int(match["port"] or PORT)
