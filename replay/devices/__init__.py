"""A device is a live source: an amplifier, a board, another stream; found, watched, found again."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bci_stream.errors import SourceError

if TYPE_CHECKING:  # a command line's --help passes through here, and needs no numpy
    from bci_stream.clock import Clock
    from bci_stream.wire.transport import Transport
    from replay.devices.live import LiveSource

Params = dict[str, str]


def _neuracle(rest: str, params: Params, transport: "Transport | None") -> "LiveSource":
    from replay.devices.open_neuracle import open_neuracle

    return open_neuracle(rest, params, _clock(transport))


def _brainflow(rest: str, params: Params, transport: "Transport | None") -> "LiveSource":
    from replay.devices.open_brainflow import open_brainflow

    return open_brainflow(rest, params, _clock(transport))


def _lsl(rest: str, params: Params, transport: "Transport | None") -> "LiveSource":
    from replay.devices.open_lsl import open_lsl

    return open_lsl(rest, params, transport)


def _clock(transport: "Transport | None") -> "Clock":
    """LSL's clock is the system's steady one, which is what we have where no transport is given."""
    from bci_stream.clock import RealClock

    return RealClock(transport.now) if transport is not None else RealClock()


SCHEMES: dict[str, "Callable[[str, Params, Transport | None], LiveSource]"] = {
    "neuracle": _neuracle,
    "brainflow": _brainflow,
    "lsl": _lsl,
}


def open_device(
    scheme: str, rest: str, params: Params, transport: "Transport | None" = None
) -> "LiveSource":
    """The device that `scheme:rest?params` names; it is contacted when its session is asked for.

    transport: the process's own LSL, where it has one already: `lsl:` reads through it, and stamps
    are in its clock.
    """
    if scheme not in SCHEMES:
        raise SourceError(f"{scheme!r} is no kind of device; there are {', '.join(SCHEMES)}")
    return SCHEMES[scheme](rest, params, transport)
