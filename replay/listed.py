"""Names in a message: the first of them, and how many more there are."""

from collections.abc import Sequence

MOST = 8


def listed(names: Sequence[str]) -> str:
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
