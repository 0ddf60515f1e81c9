"""A shim is one session with a BrainFlow board, prepared in a thread of its own."""

import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError

Rows = NDArray[np.float64]
"""(rows, n), as BrainFlow gives it."""


class BoardError(SourceError):
    """A board that can't be used just now; it is tried again."""


class Shim(Protocol):
    """The part of BrainFlow's BoardShim that is used; its errors come as BoardError."""

    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def poll(self) -> Rows: ...
    def mark(self, code: int) -> None: ...
    def stop(self) -> None: ...


class Preparation:
    """BrainFlow looks for a board as long as it likes (some for minutes) and can't be interrupted:
    who waits for it can leave, and a board that is found later is released again."""

    def __init__(self, shim: Shim) -> None:
        self._shim = shim
        self._error: BoardError | None = None
        self._lock = threading.Lock()
        self._left = False
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="prepare board", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def take(self) -> Shim:
        """When it has ended; raises BoardError where it failed."""
        if self._error is not None:
            raise self._error
        return self._shim

    def leave(self) -> None:
        with self._lock:
            self._left = True
            found = self._ended.is_set() and self._error is None
        if found:
            self._shim.stop()

    def _run(self) -> None:
        try:
            self._shim.prepare()
        except BoardError as error:
            self._error = error
        with self._lock:
            unwanted = self._left or self._error is not None
            if not unwanted:
                self._ended.set()
        if unwanted:
            self._shim.stop()
            self._ended.set()
