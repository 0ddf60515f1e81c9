"""The list of devices: what can be put on the wire, and what must be said to find it."""

import json

from rich.console import Console
from rich.table import Table

from replay.devices.boards import MASTERED, Board, all_boards

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


def _board_row(board: Board) -> dict[str, object]:
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
