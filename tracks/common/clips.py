"""A clip is a film that a subject watched: a stretch of a block with one emotion."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracks.common.events import Event, count, items, whole
from tracks.common.events import field as event_field
from tracks.errors import RuleError


@dataclass(frozen=True, slots=True)
class Clip:
    """start, end: samples, in the numbering of the packets' `start`; end is exclusive."""

    block: int
    number: int
    start: int
    end: int
    label: object


def clips_in(event: Event) -> Iterator[tuple[int, int, int, object]]:
    """(block, start, end, label) of the clips of a truth line."""
    for clip in items(event, "clips") if "clips" in event else []:
        yield (*range_in(clip, "clips"), event_field(clip, "label"))


def range_in(entry: Any, name: str) -> tuple[int, int, int]:
    """(block, start, end) of an entry of `clips` or `trials`."""
    if not isinstance(entry, dict):
        raise RuleError(f"`{name}` must be a list of objects; got {entry!r}")
    return count(entry, "block"), whole(entry, "start"), whole(entry, "end")
