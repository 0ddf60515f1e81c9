"""Finds LSL streams by name, and reads marker streams beside a signal."""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from bci_stream.errors import LostError, NotFoundError, SourceError, WireError
from bci_stream.wire.transport import FoundStream, SampleInlet, TextInlet, Transport
from replay.devices.timing import ClockOffset

SEARCH_S = 0.25
CHECK_S = 0.05
MARKERS_FIRST_S = 2.0
"""How long the marker stream is waited for before the signal starts without it."""

ANNOTATIONS = "annotations"
"""The type of MNE-LSL's annotation streams."""
ANNOTATIONS_AT_ONCE = 256


class OpenStream(Protocol):
    def clock_offset_s(self) -> float: ...
    def close(self) -> None: ...


Inlet = TypeVar("Inlet", bound=OpenStream)


class StreamSearch(Generic[Inlet]):
    """Searches in a thread until a stream of this name or source id is found and opened, or `close`.

    seen: names of all streams that were visible at last.
    """

    def __init__(
        self, name: str, transport: Transport, open_inlet: Callable[[FoundStream], Inlet]
    ) -> None:
        self.name = name
        self.seen: list[str] = []
        self._transport, self._open_inlet = transport, open_inlet
        self._lock = threading.Lock()
        self._closed, self._opened = threading.Event(), threading.Event()
        self._inlet: Inlet | None = None
        self._error: SourceError | None = None
        threading.Thread(target=self._run, name=f"search {name}", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Whether the stream was opened within the time."""
        return self._opened.wait(timeout_s)

    def take(self) -> Inlet | None:
        """The inlet, once; None while it is searched. Raises SourceError if a stream is unsuitable."""
        if self._error is not None:
            raise self._error
        with self._lock:
            inlet, self._inlet = self._inlet, None
        return inlet

    def close(self) -> None:
        """End the search, and close an inlet that was not taken. Does not wait."""
        with self._lock:
            self._closed.set()
            inlet, self._inlet = self._inlet, None
        if inlet is not None:
            inlet.close()

    def describe_seen(self) -> str:
        return f"streams seen: {', '.join(self.seen) or 'none'}"

    def _run(self) -> None:
        watch = self._transport.watch("")
        try:
            while not self._closed.is_set() and not self._search(watch.found()):
                self._closed.wait(SEARCH_S)
        finally:
            watch.close()

    def _search(self, streams: list[FoundStream]) -> bool:
        self.seen = sorted({stream.name for stream in streams})
        named = [stream for stream in streams if stream.name == self.name]
        # MNE-LSL gives the streams of a player one source id, so a name decides first.
        hits = named or [stream for stream in streams if stream.source_id == self.name]
        ids = sorted({hit.source_id for hit in hits})
        self._error = None
        if len(ids) > 1:
            self._error = SourceError(
                f"several LSL streams are named {self.name!r}: choose one by its source id, one of "
                f"{', '.join(ids)}"
            )
        return len(ids) == 1 and self._open(hits[0])

    def _open(self, found: FoundStream) -> bool:
        try:
            inlet = self._open_inlet(found)
        except (NotFoundError, LostError):  # it ended before it could be opened: search again
            return False
        except WireError as error:
            self._error = SourceError(str(error))
            return False
        inlet.clock_offset_s()  # the first measurement takes time: not while samples come
        with self._lock:
            if not self._closed.is_set():
                self._inlet = inlet
                self._opened.set()
                return True
        inlet.close()
        return True


class AnnotationInlet:
    """Annotations that MNE-LSL sends as numbers; implements `TextInlet`.

    Each label is a channel, and the annotation's duration is its value: -1 for no duration, 0 for no
    annotation.
    """

    def __init__(self, inlet: SampleInlet) -> None:
        self._inlet = inlet
        self._labels = [lead.name for lead in inlet.spec.leads]

    def pull(self, timeout_s: float) -> list[tuple[str, float]]:
        """(label, stamp) of each annotation."""
        samples, stamps = self._inlet.pull(ANNOTATIONS_AT_ONCE, timeout_s)
        rows, columns = np.nonzero(samples)
        return [
            (self._labels[column], float(stamps[row]))
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        ]

    def clock_offset_s(self) -> float:
        return self._inlet.clock_offset_s()

    def close(self) -> None:
        self._inlet.close()


class MarkerStream:
    """A marker stream beside a signal. It is searched whenever it is not there; the signal goes on."""

    def __init__(
        self, name: str, transport: Transport, dial_s: float, note: Callable[[str], None]
    ) -> None:
        self._name, self._transport, self._dial_s, self._note = name, transport, dial_s, note
        self._inlet: TextInlet | None = None
        self._is_missing = False
        self._start_search()

    def wait(self, stop: threading.Event) -> None:
        """Wait a short time, so that a stream which is there already is used from the start."""
        for _ in range(round(MARKERS_FIRST_S / CHECK_S)):
            if stop.is_set() or self._search.wait(CHECK_S):
                return

    def pull(self, now: float) -> list[tuple[str, float]]:
        """The new markers, with their times in this machine's LSL clock."""
        if self._inlet is None:
            self._inlet = self._take(now)
        if self._inlet is None:
            return []
        try:
            texts = self._inlet.pull(0.0)
        except LostError:
            self._inlet.close()
            self._inlet = None
            self._report_missing(f"the marker stream {self._name!r} is gone")
            self._start_search()
            return []
        offset_s = self._offset.at(now)
        return [(text, stamp + offset_s) for text, stamp in texts]

    def stop_search(self) -> None:
        """From any thread."""
        self._search.close()

    def close(self) -> None:
        """By the thread that pulls."""
        self._search.close()
        if self._inlet is not None:
            self._inlet.close()
            self._inlet = None

    def _start_search(self) -> None:
        self._search: StreamSearch[TextInlet] = StreamSearch(
            self._name,
            self._transport,
            self._open,
        )

    def _open(self, found: FoundStream) -> TextInlet:
        if found.type.lower() != ANNOTATIONS:
            return self._transport.text_inlet(found, self._dial_s)
        try:
            return AnnotationInlet(self._transport.sample_inlet(found, self._dial_s))
        except WireError:  # its annotations are texts
            return self._transport.text_inlet(found, self._dial_s)

    def _take(self, now: float) -> TextInlet | None:
        try:
            inlet = self._search.take()
        except SourceError as error:
            self._report_missing(str(error))
            return None
        if inlet is None:
            seen = self._search.describe_seen()
            self._report_missing(f"no marker stream {self._name!r} has been seen yet ({seen})")
            return None
        if self._is_missing:
            self._note(f"the marker stream {self._name!r} is there, and is used")
        self._is_missing = False
        self._offset = ClockOffset(inlet.clock_offset_s, now)
        return inlet

    def _report_missing(self, why: str) -> None:
        if not self._is_missing:
            self._is_missing = True
            self._note(f"{why}; the signal goes on, and markers are used when they come")
