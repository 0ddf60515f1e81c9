"""`lsl:NAME?markers=NAME` as a source."""

from urllib.parse import urlencode

from bci_stream.errors import SourceError
from bci_stream.wire.transport import Transport
from replay.devices.live import LiveSource
from replay.devices.lsl_source import HOLD_MS, LslFeed, LslWish
from replay.devices.params import Params, read_live_params


def open_lsl(rest: str, given: dict[str, str], transport: Transport | None = None) -> LiveSource:
    uri = f"lsl:{rest}" + (f"?{urlencode(given)}" if given else "")
    name = rest.removeprefix("//")
    if not name:
        raise SourceError("lsl: needs a stream's name or source id: lsl:NAME")
    params = Params(f"lsl:{name}", given)
    wish = LslWish(
        name,
        params.text("markers"),
        params.text("trigger") or "auto",
        params.choice("triggers", ("edge", "each"), "edge") == "edge",
        params.number("hold_ms", HOLD_MS, 0, 10_000),
    )
    subject, until, waits = read_live_params(params)
    params.done()
    wire = transport or _own_transport()
    return LiveSource(
        uri, subject, lambda keeper, _: LslFeed(wish, wire, keeper, waits), until, wire.now
    )


def _own_transport() -> Transport:
    from bci_stream.wire.lsl import LslTransport

    return LslTransport()
