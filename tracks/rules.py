"""The rules in force: a track's decided rules with the changes of a contest file.

What the rule documents leave open was decided; each track has these rules and their defaults in its
own file. This module checks a contest's changes against them.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from tracks.common.numbers import exact
from tracks.errors import RuleError

Rules: TypeAlias = Mapping[str, Any]

VOID_REASONS = ("timeout", "disqualified")
"""Decided, for all tracks: a run that ended so scores 0, every session too (`void_reasons`)."""


def changed(rules: Rules, changes: Rules) -> dict[str, Any]:
    """The rules with a contest's changes; unknown names and null are ignored."""
    known = {name: value for name, value in changes.items() if name in rules and value is not None}
    return {**rules, **{name: _checked(name, value, rules[name]) for name, value in known.items()}}


def _checked(name: str, value: Any, default: Any) -> Any:
    if default is None and value == "off":  # as `bci-judge init` spells it, TOML having no null
        return None
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise RuleError(f"{name} must be true or false, got {value!r}")
        return value
    if isinstance(default, str):
        if not isinstance(value, str) or sorted(value) != sorted(default):
            raise RuleError(f"{name} must be {default!r} in some order, got {value!r}")
        return value
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise RuleError(f"{name} must be a list of strings, got {value!r}")
        return tuple(value)
    exact(value, name)
    return value
