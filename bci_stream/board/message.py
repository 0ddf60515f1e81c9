"""A message is one server-sent event: an update of the board, or a snapshot of all of it."""

from functools import cached_property
from typing import Any

import msgspec


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
