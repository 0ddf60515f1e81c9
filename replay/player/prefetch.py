"""Prefetch: a thread makes packets ahead of their time, so that reading and masking delay no packet.

In real time this is the only buffer between a source and the wire. It also reads a live device, so that the
playing thread stays free to answer the network. Lockstep has no deadlines and makes its packets itself: a
second thread would only compete with the playing thread, and costs a tenth of its speed.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

from bci_stream.errors import SourceError

T = TypeVar("T")

ITEMS_AHEAD = 400
BATCH = 25
"""Items are handed over in batches where there is time: waking a thread for each packet costs more than the
packet itself."""

ROOM_S, POLL_S = 1.0, 0.05
"""How often the making thread (while the queue is full) and the taking thread (while it is empty) check
whether they shall end. The making thread is woken at the end, so it checks rarely."""

TIMEOUT_S = 60.0
"""A source that gives nothing for this long has failed."""

JOIN_S = 2.0
"""A thread that is stuck in a read is left behind after this long; it ends with the process."""


class Prefetch(Generic[T]):
    """Iterates over items that a thread makes up to `count` ahead; use it in a `with` statement.

    idle: called every POLL_S while the taking thread waits for an item.
    timeout_s: raise SourceError where no item comes for so long; None waits until `stop` is set.
    An error of the source is raised after all items that came before it.
    """

    def __init__(
        self,
        items: Iterator[T],
        stop: threading.Event,
        *,
        count: int = ITEMS_AHEAD,
        batch: int = BATCH,
        idle: Callable[[], None] = lambda: None,
        timeout_s: float | None = TIMEOUT_S,
    ) -> None:
        self._made: queue.Queue[list[T] | BaseException | None] = queue.Queue(
            max(1, count // batch)
        )
        self._stop = stop
        self._batch = batch
        self._idle = idle
        self._timeout_s = timeout_s
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._make, args=(items,), name="prefetch", daemon=True
        )

    def __enter__(self) -> "Prefetch[T]":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        with suppress(queue.Empty):
            self._made.get_nowait()  # makes room, so that a waiting thread sees the end at once
        self._thread.join(JOIN_S)

    # --- the taking thread --------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        while (made := self._take()) is not None:
            if isinstance(made, BaseException):
                raise made
            for item in made:
                if self._stop.is_set():
                    return
                yield item

    def _take(self) -> list[T] | BaseException | None:
        """The next batch; an error of the source; None after the last one, or after a stop."""
        waited_s = 0.0
        while not self._stop.is_set():
            try:
                return self._made.get(timeout=POLL_S)
            except queue.Empty:
                self._idle()
            waited_s += POLL_S
            if self._timeout_s is not None and waited_s > self._timeout_s:
                return SourceError(
                    f"timed out after {self._timeout_s:g} s reading the next packet from the source; "
                    "check its disk or network"
                )
        return None

    # --- the making thread --------------------------------------------------------------------

    def _make(self, items: Iterator[T]) -> None:
        ready: list[T] = []
        try:
            for item in items:
                ready.append(item)
                if len(ready) >= self._batch or self._made.empty():  # empty: the taker may wait
                    if not self._put(ready):
                        return
                    ready = []
        except BaseException as error:  # noqa: BLE001 - raised by the taking thread
            self._put(ready)
            self._put(error)
        else:
            self._put(ready)
            self._put(None)

    def _put(self, made: list[T] | BaseException | None) -> bool:
        while not (self._stop.is_set() or self._over.is_set()):
            with suppress(queue.Full):
                self._made.put(made, timeout=ROOM_S)
                return True
        return False
