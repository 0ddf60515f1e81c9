"""The board's own errors: a store that can't be used, a page that can't be served."""

from bci_stream.errors import BciError


class StoreError(BciError):
    """A store of contests, teams and runs that can't be opened, read or written."""


class PageError(BciError):
    """A page that can't be served."""
