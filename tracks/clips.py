"""A clip is a film that a subject watched: a stretch of a block with one emotion."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracks.errors import RuleError
from tracks.events import Event, count, items, whole
from tracks.events import field as event_field

# Seed 002, table 1: number of the clip -> (its length in s, its class).
# fmt: off
CLIPS = {
    1: (81, 0), 2: (63, 0), 3: (73, 0),
    4: (78, 1), 5: (69, 1), 6: (90, 1),
    7: (56, 2), 8: (60, 2), 9: (81, 2),
    10: (45, 3), 11: (60, 3), 12: (81, 3),
    13: (35, 4), 14: (44, 4), 15: (38, 4), 16: (43, 4),
    17: (55, 5), 18: (69, 5), 19: (73, 5),
    20: (129, 6), 21: (77, 6), 22: (83, 6),
    23: (34, 7), 24: (37, 7), 25: (67, 7),
    26: (63, 8), 27: (83, 8), 28: (77, 8),
}
# fmt: on


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
