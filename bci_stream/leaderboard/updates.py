"""Numbered updates of what is shown: a display that lost its connection continues after its last one."""

import secrets
import zlib
from collections import deque
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import Any, Final

import msgspec

UPDATES_KEPT: Final = 600

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The header of a gzip stream; any number of `deflate`d pieces may follow."""


class LeaderboardUpdate:
    """A numbered update or snapshot. boot: tells the updates of two processes apart."""

    def __init__(self, boot: str, number: int, event: str, data: dict[str, Any]) -> None:
        self.number = number
        self.id = f"{boot}-{number}"
        self.event = event
        self.data = data

    @cached_property
    def encoded(self) -> bytes:
        """As a server-sent event; encoded once for all pages."""
        head = f"id: {self.id}\nevent: {self.event}\ndata: ".encode()
        return head + msgspec.json.encode(self.data) + b"\n\n"

    @cached_property
    def deflated(self) -> bytes:
        """The same for pages that accept gzip; compressed once for all pages."""
        return deflate(self.encoded)


def deflate(text: bytes) -> bytes:
    """A piece of a gzip stream that refers to no other piece, so that all pages can share it."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(text) + compressor.flush(zlib.Z_FULL_FLUSH)


class UpdateLog:
    """The last UPDATES_KEPT updates, and a snapshot of the state after the last one."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all updates: every display needs a snapshot."""
        self.boot = secrets.token_hex(4)
        self.number = 0
        self._updates: deque[LeaderboardUpdate] = deque(maxlen=UPDATES_KEPT)
        self._snapshot: LeaderboardUpdate | None = None

    def add(self, data: dict[str, Any]) -> None:
        self.number += 1
        self._updates.append(LeaderboardUpdate(self.boot, self.number, "update", data))

    def after(self, cursor: str) -> list[LeaderboardUpdate] | None:
        """The updates after the one with the id `cursor`; None if a snapshot is needed."""
        boot, _, number = cursor.partition("-")
        if boot != self.boot or not number.isdecimal() or int(number) > self.number:
            return None
        missed = self.number - int(number)
        if missed > len(self._updates):
            return None
        return list(islice(self._updates, len(self._updates) - missed, None))

    def snapshot(self, everything: Callable[[], dict[str, Any]]) -> LeaderboardUpdate:
        """A snapshot numbered like the last update; `everything` is called if there is none yet."""
        if self._snapshot is None or self._snapshot.number != self.number:
            self._snapshot = LeaderboardUpdate(self.boot, self.number, "snapshot", everything())
        return self._snapshot
