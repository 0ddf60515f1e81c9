"""A marker stream beside a signal: it may start later, end and come back; the signal goes on."""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from bci_stream.errors import LostError, NotFoundError, SourceError, WireError
from bci_stream.wire.transport import FoundStream, TextInlet, Transport
from replay.devices.timing import ClockOffset

SEARCH_S = 0.25


class OpenStream(Protocol):
    def clock_offset_s(self) -> float: ...
    def close(self) -> None: ...


Inlet = TypeVar("Inlet", bound=OpenStream)


class StreamSearch(Generic[Inlet]):
    """Looks until the stream is seen by its name or source id and could be opened, or until closed."""

    def __init__(
        self, name: str, transport: Transport, opened: Callable[[FoundStream], Inlet]
    ) -> None:
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

    def _look(self, streams: list[FoundStream]) -> bool:
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

    def _open(self, found: FoundStream) -> bool:
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


FIRST_S = 2.0
"""How long it is waited for before the signal starts without it."""

LOOK_S = 0.05


class MarkerStream:
    """Looked for in the background whenever it is not there. note: takes what the user should know."""

    def __init__(
        self, name: str, transport: Transport, dial_s: float, note: Callable[[str], None]
    ) -> None:
        self._name, self._transport, self._dial_s, self._note = name, transport, dial_s, note
        self._inlet: TextInlet | None = None
        self._told_missing = False
        self._look_for()

    def wait(self, stop: threading.Event) -> None:
        """A stream that is there already is not to be missed."""
        for _ in range(round(FIRST_S / LOOK_S)):
            if stop.is_set() or self._search.wait(LOOK_S):
                return

    def pull(self, now: float) -> list[tuple[str, float]]:
        """The markers that have come, with their times in this machine's clock."""
        if self._inlet is None:
            self._inlet = self._take(now)
        if self._inlet is None:
            return []
        try:
            texts = self._inlet.pull(0.0)
        except LostError:
            self._inlet.close()
            self._inlet = None
            self._miss(f"the marker stream {self._name!r} is gone")
            self._look_for()
            return []
        offset_s = self._offset.at(now)
        return [(text, stamp + offset_s) for text, stamp in texts]

    def stop_looking(self) -> None:
        """From any thread."""
        self._search.close()

    def close(self) -> None:
        """By who pulls."""
        self._search.close()
        if self._inlet is not None:
            self._inlet.close()
            self._inlet = None

    def _look_for(self) -> None:
        self._search: StreamSearch[TextInlet] = StreamSearch(
            self._name,
            self._transport,
            lambda found: self._transport.text_inlet(found, self._dial_s),
        )

    def _take(self, now: float) -> TextInlet | None:
        try:
            inlet = self._search.take()
        except SourceError as error:
            self._miss(str(error))
            return None
        if inlet is None:
            seen = ", ".join(self._search.seen) or "none"
            self._miss(f"no marker stream {self._name!r} has been seen yet (streams seen: {seen})")
            return None
        if self._told_missing:
            self._note(f"the marker stream {self._name!r} is there, and is used")
        self._told_missing = False
        self._offset = ClockOffset(inlet.clock_offset_s, now)
        return inlet

    def _miss(self, why: str) -> None:
        if not self._told_missing:
            self._told_missing = True
            self._note(f"{why}; the signal goes on, and markers are used when they come")
