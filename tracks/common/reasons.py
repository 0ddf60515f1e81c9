"""Reason codes: why a report, a trial or a run counts as it does.

A reason is a code with parameters, for example ``Reason("over_limit", used_s=2.4, limit_s=2.0)``.
The words come from one table per language, `tracks.common.words`; a test checks that both tables
have every code with its parameters.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias, Union

Parameter: TypeAlias = Union[str, int, float, tuple[int, ...], "Reason"]


@dataclass(frozen=True, slots=True, init=False)
class Reason:
    """A code and its parameters; frozen and hashable. A parameter may be another reason."""

    code: str
    items: tuple[tuple[str, Parameter], ...]

    def __init__(self, code: str, **parameters: Parameter) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "items", tuple(parameters.items()))

    @property
    def parameters(self) -> dict[str, Parameter]:
        return dict(self.items)

    @property
    def cause(self) -> "Reason":
        """The innermost reason: the one that the parameter `why` names, if there is one."""
        why = self.parameters.get("why")
        return why.cause if isinstance(why, Reason) else self

    def without(self, name: str) -> "Reason":
        """The same reason without a parameter, in its cause too: to count reasons of one kind."""
        kept = {
            key: value.without(name) if isinstance(value, Reason) else value
            for key, value in self.items
            if key != name
        }
        return Reason(self.code, **kept)

    def to_json(self) -> dict[str, Any]:
        """``{"code": ..., "parameters": {...}}``, nested if a parameter is a reason."""
        return {
            "code": self.code,
            "parameters": {name: _plain(value) for name, value in self.items},
        }


def _plain(value: Parameter) -> Any:
    if isinstance(value, Reason):
        return value.to_json()
    return list(value) if isinstance(value, tuple) else value
