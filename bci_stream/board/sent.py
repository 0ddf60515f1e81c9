"""How rows and verdicts are sent to the pages: whole in a snapshot, what changed in an update."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from bci_stream.board.standing import Row

ROW_FIELDS: Final = tuple(field.name for field in fields(Row))


def as_sent(order: int, row: Row) -> dict[str, Any]:
    """order: the row's place in the table of its track, for teams without a rank too."""
    return {name: getattr(row, name) for name in ROW_FIELDS} | {"order": order}


def news(before: tuple[int, Row], now: tuple[int, Row]) -> dict[str, Any]:
    """What a row says that it did not say before, and whose row it is."""
    said, says = as_sent(*before), as_sent(*now)
    changed = {name: value for name, value in says.items() if said[name] != value}
    return {"team": says["team"], "track": says["track"]} | changed


def flat(kept: Mapping[str, Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All tracks' verdicts in one list."""
    return [item for items in kept.values() for item in items]
