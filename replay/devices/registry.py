"""The table of devices. A new amplifier is one module and one line in `DEVICES`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from typing import Protocol, cast
from urllib.parse import urlencode

from bci_stream.clock import RealClock
from bci_stream.errors import SourceError
from bci_stream.wire.transport import Transport
from replay.devices.base import Device, DeviceContext, DeviceFeed, DeviceRow
from replay.devices.live import LiveSource
from replay.devices.manual_triggers import ManualTriggers
from replay.devices.params import DeviceParams
from replay.devices.status import StatusKeeper
from replay.model.event_map import EventMap
from replay.model.options import SourceOptions

DEVICES = {
    "neuracle": "replay.devices.neuracle.device",
    "lsl": "replay.devices.lsl",
    "brainflow": "replay.devices.brainflow",
}
"""Scheme of the URI -> module with the two functions of `DeviceModule`, imported when it is used."""

MISSING = {"pkg_resources": "pip install --upgrade brainflow, or pip install 'setuptools<81'"}
"""Module that a device's library needs -> what to install, where it is not a package of that name."""


class DeviceModule(Protocol):
    def make_device(self, context: DeviceContext) -> Device:
        """The device that the context's address and parameters name; not connected yet."""

    def device_rows(self) -> list[DeviceRow]:
        """Its lines in `bci-replay devices`."""


def open_device(
    scheme: str,
    address: str,
    params: dict[str, str],
    transport: Transport | None = None,
    options: SourceOptions | None = None,
) -> LiveSource:
    """The device of `scheme:address?params`; it is connected when its session is asked for.

    transport: the LSL of this process, if it has one: `lsl:` reads from it, and stamps use its clock.
    """
    if scheme not in DEVICES:
        raise SourceError(f"unknown kind of device {scheme!r}; choose one of {', '.join(DEVICES)}")
    uri = f"{scheme}:{address}" + (f"?{urlencode(params)}" if params else "")
    return open_live(_module(scheme).make_device, uri, params, transport, options)


def open_live(
    make_device: Callable[[DeviceContext], Device],
    uri: str,
    given: Mapping[str, str],
    transport: Transport | None = None,
    options: SourceOptions | None = None,
) -> LiveSource:
    """The source of a device, by the function that makes it; given: the parameters of the URI."""
    named = uri.partition("?")[0]
    params = DeviceParams(named, dict(given))
    # LSL's clock is the system's monotonic clock, which RealClock uses by default.
    clock = RealClock(transport.now) if transport is not None else RealClock()
    status, triggers = StatusKeeper(uri), ManualTriggers(clock.now)
    timeouts, (subject, until) = params.timeouts(), params.session()
    address = named.partition(":")[2]
    events = options.events if options else EventMap()
    device = make_device(
        DeviceContext(address, params, timeouts, clock, status, triggers, transport, events)
    )
    params.done()
    feed = DeviceFeed(device, clock, status, timeouts)
    return LiveSource(feed, status, triggers, subject, until, options)


def _module(scheme: str) -> DeviceModule:
    try:
        return cast(DeviceModule, import_module(DEVICES[scheme]))
    except ModuleNotFoundError as error:
        raise SourceError(
            f"{scheme}: needs the Python module {error.name!r}, which is not installed: "
            f"{MISSING.get(error.name or '', f'pip install {error.name}')}"
        ) from error


def all_device_rows() -> list[DeviceRow]:
    return [row for scheme in DEVICES for row in _module(scheme).device_rows()]


def print_devices(as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    rows = [asdict(row) for row in all_device_rows()]
    if as_json:
        print(json.dumps({"devices": rows}, indent=1))
        return
    table = Table(box=None)
    table.add_column("device", no_wrap=True)
    table.add_column("rate (Hz)", justify="right")
    table.add_column("leads", justify="right")
    table.add_column("needs")
    for row in rows:
        table.add_row(*(str(row[key]) for key in ("uri", "rate", "leads", "needs")))
    Console().print(table)
