"""Events are the lines of a run log; these functions read and check their fields."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from tracks.errors import RuleError

Event: TypeAlias = Mapping[str, Any]
TriggerList: TypeAlias = list[tuple[int, int]]


def field(event: Event, name: str) -> Any:
    try:
        return event[name]
    except KeyError:
        raise RuleError(f"a {event.get('kind')} line needs the field `{name}`") from None


def whole(event: Event, name: str) -> int:
    """A field that must be a whole number."""
    value = field(event, name)
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise RuleError(f"`{name}` must be a whole number; got {value!r}")


def count(event: Event, name: str) -> int:
    """A field that must be a whole number, 0 or more."""
    value = whole(event, name)
    if value < 0:
        raise RuleError(f"`{name}` must be 0 or more; got {value!r}")
    return value


def items(event: Event, name: str) -> list[Any]:
    """A field that must be a list."""
    value = field(event, name)
    if not isinstance(value, list | tuple):
        raise RuleError(f"`{name}` must be a list; got {value!r}")
    return list(value)


def range_in(entry: Any, name: str) -> tuple[int, int, int]:
    """(block, start, end) of an entry of `clips` or `trials`."""
    if not isinstance(entry, dict):
        raise RuleError(f"`{name}` must be a list of objects; got {entry!r}")
    return count(entry, "block"), whole(entry, "start"), whole(entry, "end")


def triggers(event: Event) -> TriggerList:
    """(offset, code) of a packet, in the order in which they act: that of their offset."""
    listed = field(event, "triggers")
    if not listed and isinstance(listed, list | tuple):
        return []
    pairs = [_trigger(pair) for pair in items(event, "triggers")]
    return sorted(pairs, key=lambda pair: pair[0])


def _trigger(pair: Any) -> tuple[int, int]:
    match pair:
        case [int(offset), int(code)]:
            return offset, code
    raise RuleError(f"`triggers` must be a list of [offset, code]; got {pair!r}")
