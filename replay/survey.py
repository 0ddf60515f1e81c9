"""A survey looks through long recordings for bad samples while a replay waits to begin.

Looking through hours of them first would keep everybody waiting; but a replay mostly waits for others
anyway. What is found by then is told before anything is sent; as soon as packets are due the survey ends,
since nothing may hold them up, and the rest is checked as it is read.
"""

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from bci_stream.errors import SourceError
from replay.finite import FiniteSignal

PIECE_SAMPLES = 1 << 12
"""So much is looked through at once: a megabyte or two, some milliseconds."""


class Survey:
    """Runs from its `with` to its end. on_bad: called from its thread when it has found something."""

    def __init__(self, signals: Sequence[FiniteSignal], on_bad: Callable[[], None]) -> None:
        self._signals, self._on_bad = signals, on_bad
        self._bad: SourceError | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="survey", daemon=True)

    def __enter__(self) -> "Survey":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_looking()

    def end(self) -> None:
        """Stop looking; raises what was found."""
        self._stop_looking()
        if self._bad is not None:
            raise self._bad

    def _stop_looking(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        try:
            for signal in self._signals:
                for start in range(0, signal.n_samples, PIECE_SAMPLES):
                    if self._over.wait(self._look_at(signal, start)):
                        return
        except SourceError as error:
            self._bad = error
            self._on_bad()

    def _look_at(self, signal: FiniteSignal, start: int) -> float:
        """Read a piece; returns how long to rest: half a core at most, and others get at the file."""
        begun = time.monotonic()
        signal.read(start, min(start + PIECE_SAMPLES, signal.n_samples))
        return time.monotonic() - begun
