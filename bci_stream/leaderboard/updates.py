"""A message is one server-sent event: an update of the board, or a snapshot of all of it."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, Final

import msgspec

from bci_stream.leaderboard.ranking import LeaderboardRow

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""How a gzip stream begins; pieces that were squeezed each on its own may follow in any number."""


def deflate(text: bytes) -> bytes:
    """A piece of a gzip stream that refers to no other piece, so that all pages can share it."""
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(text) + deflate.flush(zlib.Z_FULL_FLUSH)


class LeaderboardUpdate:
    """A numbered piece of news; `boot` tells the boards of two judges apart."""

    def __init__(self, boot: str, number: int, event: str, data: dict[str, Any]) -> None:
        self.number = number
        self.id = f"{boot}-{number}"
        self.event = event
        self.data = data

    @cached_property
    def encoded(self) -> bytes:
        """As it goes over the wire; made once, however many pages are open."""
        head = f"id: {self.id}\nevent: {self.event}\ndata: ".encode()
        return head + msgspec.json.encode(self.data) + b"\n\n"

    @cached_property
    def squeezed(self) -> bytes:
        """The same for pages that take gzip; made once, too."""
        return deflate(self.encoded)


ROW_FIELDS: Final = tuple(field.name for field in fields(LeaderboardRow))


def as_sent(order: int, row: LeaderboardRow) -> dict[str, Any]:
    """order: the row's place in the table of its track, for teams without a rank too."""
    return {name: getattr(row, name) for name in ROW_FIELDS} | {"order": order}


def changed_fields(
    before: tuple[int, LeaderboardRow], now: tuple[int, LeaderboardRow]
) -> dict[str, Any]:
    """What a row says that it did not say before, and whose row it is."""
    said, says = as_sent(*before), as_sent(*now)
    changed = {name: value for name, value in says.items() if said[name] != value}
    return {"team": says["team"], "track": says["track"]} | changed


def flat(kept: Mapping[str, Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All tracks' verdicts in one list."""
    return [item for items in kept.values() for item in items]
