"""A device is a live source: an amplifier, a board, another stream; found, watched, found again."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bci_stream.errors import SourceError
from replay.devices.boards import MASTERED, BoardFacts, all_boards

if TYPE_CHECKING:
    from bci_stream.clock import Clock
    from bci_stream.wire.transport import Transport
    from replay.devices.base import LiveSource


UriParams = dict[str, str]


def _neuracle(rest: str, params: UriParams, transport: "Transport | None") -> "LiveSource":
    from replay.devices.neuracle.feed import open_neuracle

    return open_neuracle(rest, params, _clock(transport))


def _brainflow(rest: str, params: UriParams, transport: "Transport | None") -> "LiveSource":
    from replay.devices.brainflow import open_brainflow

    return open_brainflow(rest, params, _clock(transport))


def _lsl(rest: str, params: UriParams, transport: "Transport | None") -> "LiveSource":
    from replay.devices.lsl import open_lsl

    return open_lsl(rest, params, transport)


def _clock(transport: "Transport | None") -> "Clock":
    """LSL's clock is the system's steady one, which is what we have where no transport is given."""
    from bci_stream.clock import RealClock

    return RealClock(transport.now) if transport is not None else RealClock()


SCHEMES: dict[str, "Callable[[str, UriParams, Transport | None], LiveSource]"] = {
    "neuracle": _neuracle,
    "brainflow": _brainflow,
    "lsl": _lsl,
}


def open_device(
    scheme: str, rest: str, params: UriParams, transport: "Transport | None" = None
) -> "LiveSource":
    """The device that `scheme:rest?params` names; it is contacted when its session is asked for.

    transport: the process's own LSL, where it has one already: `lsl:` reads through it, and stamps
    are in its clock.
    """
    if scheme not in SCHEMES:
        raise SourceError(f"{scheme!r} is no kind of device; there are {', '.join(SCHEMES)}")
    return SCHEMES[scheme](rest, params, transport)


OTHERS = (
    ("neuracle://HOST:8712?protocol=raw", "told", "told", "channels, rate; montage"),
    ("neuracle://HOST:8712?protocol=heeg", "sent", "sent", "montage (for names)"),
    ("neuracle://HOST:8712?protocol=jellyfish", "sent", "sent", "nothing; module where several"),
    ("lsl:NAME", "sent", "sent", "nothing; markers=NAME for its markers"),
)
"""uri, rate, leads, needs: `told` by the user, or `sent` by the device."""


def device_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {"uri": uri, "rate": rate, "leads": leads, "needs": needs, "names": []}
        for uri, rate, leads, needs in OTHERS
    ]
    return rows + [_board_row(board) for board in all_boards()]


def _board_row(board: BoardFacts) -> dict[str, object]:
    mastered = board.name in MASTERED
    return {
        "uri": f"brainflow:{board.name}",
        "rate": "master's" if mastered else board.rate,
        "leads": "master's" if mastered else len(board.leads),
        "needs": ", ".join(board.needs) or "nothing",
        "names": [lead.name for lead in board.leads],
    }


def print_devices(as_json: bool) -> None:
    rows = device_rows()
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
