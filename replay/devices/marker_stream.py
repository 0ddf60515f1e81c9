"""A marker stream beside a signal: it may start later, end and come back; the signal goes on."""

import threading
from collections.abc import Callable

from bci_stream.errors import LostError, SourceError
from bci_stream.wire.transport import TextInlet, Transport
from replay.devices.clock_offset import ClockOffset
from replay.devices.stream_search import StreamSearch

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
