"""Read-ahead fetches a recording's next pieces in the background: no packet waits for a disk."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Triggers
from replay.model.events import Events
from replay.model.signal import Signal

PIECE_S = 4.0
PIECES_AHEAD = 3
PATIENCE_S = 60.0

ReadPiece = tuple[int, FloatArray, Triggers]
"""(its first sample, samples, triggers)"""


class ReadAhead:
    """A signal and its events, served from pieces that a thread reads before they are asked for.

    What `read` returns is a view of a piece wherever it does not straddle two: don't change it.
    """

    def __init__(
        self, signal: Signal, events: Events, piece_samples: int, patience_s: float = PATIENCE_S
    ) -> None:
        self._signal, self._events = signal, events
        self._piece_samples, self._patience_s = piece_samples, patience_s
        self._pieces: dict[int, Future[ReadPiece | None]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead")

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def n_samples(self) -> int:
        return self._signal.n_samples

    def read(self, start: int, stop: int) -> FloatArray:
        pieces = self._pieces_of(start, stop)
        if pieces is None:
            return self._signal.read(start, stop)
        views = [samples[max(start - at, 0) : stop - at] for at, samples, _ in pieces]
        return views[0] if len(views) == 1 else np.concatenate(views)

    def between(self, start: int, stop: int) -> Triggers:
        stop = min(stop, self.n_samples)
        pieces = self._pieces_of(start, stop)
        if pieces is None:
            return self._events.between(start, stop)
        return tuple(t for _, _, triggers in pieces for t in triggers if start <= t[0] < stop)

    def _pieces_of(self, start: int, stop: int) -> list[ReadPiece] | None:
        """The pieces that hold these samples; None where one of them is bad.

        A bad sample spoils its own packet, not all that is read together with it: the packets of its
        piece are read one by one.
        """
        size = self._piece_samples
        pieces = [self._piece(k) for k in range(start // size, (stop - 1) // size + 1)]
        good = [piece for piece in pieces if piece is not None]
        return good if len(good) == len(pieces) else None

    def _piece(self, number: int) -> ReadPiece | None:
        last = (self.n_samples - 1) // self._piece_samples
        for ahead in range(number, min(number + PIECES_AHEAD, last) + 1):
            if ahead not in self._pieces:
                self._pieces[ahead] = self._thread.submit(self._fetch, ahead)
        for old in [k for k in self._pieces if k < number - 1]:
            del self._pieces[old]
        try:
            return self._pieces[number].result(self._patience_s)
        except TimeoutError as error:
            raise SourceError(
                f"waited {self._patience_s:g} s for samples {number * self._piece_samples} and "
                "following: the disk gives nothing"
            ) from error

    def _fetch(self, number: int) -> ReadPiece | None:
        start = number * self._piece_samples
        stop = min(start + self._piece_samples, self.n_samples)
        try:
            return start, self._signal.read(start, stop), self._events.between(start, stop)
        except SourceError:
            return None
