"""`neuracle://HOST:8712?protocol=raw&channels=64&rate=1000&montage=mi` as a source."""

import re
from collections.abc import Callable
from typing import cast
from urllib.parse import urlencode

from bci_stream.clock import Clock, RealClock
from bci_stream.errors import SourceError
from replay.devices.chunk import DeviceInfo, Parser
from replay.devices.link import TcpDialer
from replay.devices.live import LiveSource
from replay.devices.neuracle import NeuracleFeed
from replay.devices.neuracle_heeg import HeegParser
from replay.devices.neuracle_jellyfish import HOLD_MS, JellyfishParser
from replay.devices.neuracle_raw import RawParser
from replay.devices.params import Params, read_live_params, read_montage
from replay.devices.trigger_word import WordKind

PORT = 8712
_ADDRESS = re.compile(
    r"(\[(?P<ipv6>[^\[\]]*:[^\[\]]*)\]|(?P<host>[^:\[\]]+))(:(?P<port>[0-9]{0,5}))?"
)

Make = Callable[[], Parser]


def _raw(params: Params, hold: bool) -> Make:
    channels = params.whole("channels", None, 1, 1024)
    rate = params.number("rate", None, 1, 100_000)
    kind = params.choice("trigger", ("auto", "float", "uint"), "auto")
    leads = read_montage(params.text("montage"), channels)
    assert leads is not None
    forced = None if kind == "auto" else cast(WordKind, kind)
    return lambda: RawParser(DeviceInfo(rate, leads), forced, hold)


def _heeg(params: Params, hold: bool) -> Make:
    leads = read_montage(params.text("montage"), None)
    return lambda: HeegParser(leads, hold)


def _jellyfish(params: Params, hold: bool) -> Make:
    leads = read_montage(params.text("montage"), None)
    hold_ms = params.whole("hold_ms", HOLD_MS, 0, 10_000)
    module = params.text("module")
    return lambda: JellyfishParser(module, leads, hold, hold_ms)


PARSERS: dict[str, Callable[[Params, bool], Make]] = {
    "raw": _raw,
    "heeg": _heeg,
    "jellyfish": _jellyfish,
}


def open_neuracle(rest: str, given: dict[str, str], clock: Clock | None = None) -> LiveSource:
    uri = f"neuracle:{rest}" + (f"?{urlencode(given)}" if given else "")
    host, port = _address(rest)
    params = Params(f"neuracle:{rest}", given)
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
