"""The rules in force: a track's decided rules with the changes of a contest file.

What the rule documents leave open was decided; each track has these rules and their defaults in its
own file. This module checks a contest's changes against them.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from tracks.common.numbers import exact
from tracks.errors import RuleError

Rules: TypeAlias = Mapping[str, Any]

COMMON_RULES: Rules = {"void_reasons": ("timeout", "disqualified"), "outage": "void"}
"""Decided, for all tracks. A run that ended as one of `void_reasons` scores 0, every session too.
`outage`: what an outage touches is void; "stand": outages have no effect."""

CHOICES = {"outage": ("void", "stand")}
"""The values of a rule that is one of a few words."""


def changed(rules: Rules, changes: Rules) -> dict[str, Any]:
    """The rules with a contest's changes; unknown names and null are ignored."""
    known = {name: value for name, value in changes.items() if name in rules and value is not None}
    return {**rules, **{name: _checked(name, value, rules[name]) for name, value in known.items()}}


def _checked(name: str, value: Any, default: Any) -> Any:
    if default is None and value == "off":  # as `bci-judge init` spells it, TOML having no null
        return None
    if name == "profile":  # `Track.under` has checked it
        return value
    if name in CHOICES:
        if value not in CHOICES[name]:
            words = " or ".join(f'"{choice}"' for choice in CHOICES[name])
            raise RuleError(f"{name} must be {words}, got {value!r}")
        return value
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
