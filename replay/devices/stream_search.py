"""A search for one LSL stream, in a thread of its own: who waits for it can leave at any moment."""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from bci_stream.errors import LostError, NotFoundError, SourceError, WireError
from bci_stream.wire.transport import Found, Transport

SEARCH_S = 0.25


class OpenStream(Protocol):
    def clock_offset_s(self) -> float: ...
    def close(self) -> None: ...


Inlet = TypeVar("Inlet", bound=OpenStream)


class StreamSearch(Generic[Inlet]):
    """Looks until the stream is seen by its name or source id and could be opened, or until closed."""

    def __init__(self, name: str, transport: Transport, opened: Callable[[Found], Inlet]) -> None:
        self.name = name
        self.seen: list[str] = []
        """The names of all streams that were there at the last look."""
        self._transport, self._opened = transport, opened
        self._lock = threading.Lock()
        self._closed, self._there = threading.Event(), threading.Event()
        self._inlet: Inlet | None = None
        self._error: SourceError | None = None
        threading.Thread(target=self._run, name=f"search {name}", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """True at once when there is something to take."""
        return self._there.wait(timeout_s)

    def take(self) -> Inlet | None:
        """The stream, once; None while it is looked for. SourceError where what is there won't do."""
        if self._error is not None:
            raise self._error
        with self._lock:
            inlet, self._inlet = self._inlet, None
        return inlet

    def close(self) -> None:
        """End the search; a stream that nobody took is closed. Never waits."""
        with self._lock:
            self._closed.set()
            inlet, self._inlet = self._inlet, None
        if inlet is not None:
            inlet.close()

    def _run(self) -> None:
        watch = self._transport.watch("")
        try:
            while not self._closed.is_set() and not self._look(watch.found()):
                self._closed.wait(SEARCH_S)
        finally:
            watch.close()

    def _look(self, streams: list[Found]) -> bool:
        self.seen = sorted({stream.name for stream in streams})
        hits = [stream for stream in streams if self.name in (stream.name, stream.source_id)]
        ids = sorted({hit.source_id for hit in hits})
        self._error = None
        if len(ids) > 1:
            self._error = SourceError(
                f"several LSL streams are named {self.name!r}: take one by its source id, one of "
                f"{', '.join(ids)}"
            )
        return len(ids) == 1 and self._open(hits[0])

    def _open(self, found: Found) -> bool:
        try:
            inlet = self._opened(found)
        except (NotFoundError, LostError):  # seen, and gone before it could be opened: look again
            return False
        except WireError as error:
            self._error = SourceError(str(error))
            return False
        inlet.clock_offset_s()  # LSL measures for some time at first: not while samples come
        with self._lock:
            if not self._closed.is_set():
                self._inlet = inlet
                self._there.set()
                return True
        inlet.close()
        return True
