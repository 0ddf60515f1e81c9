"""Errors of the service; `tracks.errors` has the whole tree."""

from collections.abc import Sequence

from tracks.errors import BciError, RuleError, TruthError

__all__ = [
    "BciError",
    "ContestError",
    "LogError",
    "LostError",
    "NotFoundError",
    "RefusedError",
    "RuleError",
    "SourceError",
    "TruthError",
    "WireError",
]


HOST_FAILED = 75
"""Exit code of a decoder that this machine could not start (a registry out of reach, a full disk)."""


class LogError(BciError):
    """A run log that can't be read."""


class WireError(BciError):
    """A stream or message that breaks the protocol."""


class NotFoundError(WireError):
    """A stream that never appeared."""


class LostError(WireError):
    """A stream or samples that were lost."""


class RefusedError(WireError):
    """The replay refused the team; the message has its reason."""


class ContestError(BciError):
    """A contest file or key that can't be used."""


class SourceError(BciError):
    """A recording or device that can't be read."""


class StoreError(BciError):
    """A store of contests, teams and runs that can't be opened, read or written."""


class PageError(BciError):
    """A page that can't be served."""


MOST = 8


def shorten_list(names: Sequence[str]) -> str:
    """The first MOST names, and how many more there are."""
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
