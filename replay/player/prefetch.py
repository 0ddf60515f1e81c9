"""Prepares packets ahead of their time in a thread, so that reading and masking never hold up the pace."""

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

ITEMS_AHEAD = 400
BATCH = 25
"""Handed over together where there is time: a thread that wakes for each single packet costs more
than the packet."""

ROOM_S, POLL_S = 1.0, 0.2
"""How often a maker who waits for room, and a taker who waits for items, look whether it is over. A maker
nearly always waits, and is woken at the end: its looks are for nothing, and cost as much as a packet."""


def ahead(
    items: Iterator[T], stop: threading.Event, count: int = ITEMS_AHEAD, batch: int = BATCH
) -> Iterator[T]:
    """The same items in the same order, up to `count` of them made before they are asked for.

    An error of the source comes out where it would have come; the thread ends with the iterator.
    """
    made: queue.Queue[list[T] | BaseException | None] = queue.Queue(max(1, count // batch))
    over = threading.Event()

    def put(item: list[T] | BaseException | None) -> bool:
        while not (stop.is_set() or over.is_set()):
            try:
                made.put(item, timeout=ROOM_S)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        ready: list[T] = []
        try:
            for item in items:
                ready.append(item)
                if len(ready) >= batch or made.empty():  # empty: somebody may be waiting
                    if not put(ready):
                        return
                    ready = []
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, who raises it
            put(ready)
            put(error)
        else:
            put(ready)
            put(None)

    thread = threading.Thread(target=make, name="ahead", daemon=True)
    thread.start()
    try:
        while not stop.is_set():
            try:
                found = made.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            for item in found:
                if stop.is_set():
                    return
                yield item
    finally:
        over.set()
        with contextlib.suppress(queue.Empty):
            made.get_nowait()  # room for a maker that waits for it, so that it sees the end at once
        thread.join()
