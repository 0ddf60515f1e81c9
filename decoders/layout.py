"""A layout says which characters flash together: rows and columns, or any other groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import RuleError
from tracks.erp import CHARACTERS, GROUPS


@dataclass(frozen=True)
class Layout:
    """groups[g] are the characters that flash at trigger g + 1."""

    groups: tuple[str, ...] = tuple(GROUPS[code] for code in sorted(GROUPS))

    def __post_init__(self) -> None:
        unknown = sorted(set("".join(self.groups)) - set(CHARACTERS))
        if unknown:
            raise RuleError(f"layout: it has {''.join(unknown)!r}; characters are {CHARACTERS}")
        rows = [tuple(row) for row in self.membership]
        twins = [c for c, row in zip(self.characters, rows, strict=True) if rows.count(row) > 1]
        if twins:
            raise RuleError(
                f"layout: {''.join(twins)!r} flash in the same groups, can't be told apart"
            )

    @cached_property
    def characters(self) -> str:
        """Those that some group holds, in the track's order."""
        held = set("".join(self.groups))
        return "".join(c for c in CHARACTERS if c in held)

    @cached_property
    def membership(self) -> NDArray[np.float64]:
        """(characters, groups): 1 where the character flashes with the group."""
        return np.array([[float(c in g) for g in self.groups] for c in self.characters])

    @staticmethod
    def of(groups: Sequence[str] | None) -> "Layout":
        """The track's own layout, or another one."""
        return Layout() if groups is None else Layout(tuple(groups))
