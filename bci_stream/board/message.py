"""A message is one server-sent event: an update of the board, or a snapshot of all of it."""

import zlib
from functools import cached_property
from typing import Any, Final

import msgspec

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""How a gzip stream begins; pieces that were squeezed each on its own may follow in any number."""


def squeeze(text: bytes) -> bytes:
    """A piece of a gzip stream that refers to no other piece, so that all pages can share it."""
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(text) + deflate.flush(zlib.Z_FULL_FLUSH)


class Message:
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
        return squeeze(self.encoded)
