"""Prepares packets ahead of their time in a thread, so that reading and masking never hold up the pace."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

PACKETS_AHEAD = 400
POLL_S = 0.2


def ahead(items: Iterator[T], stop: threading.Event, count: int = PACKETS_AHEAD) -> Iterator[T]:
    """The same items in the same order, up to `count` of them made before they are asked for.

    An error of the source comes out where it would have come; the thread ends with the iterator.
    """
    made: queue.Queue[T | BaseException | None] = queue.Queue(count)
    over = threading.Event()

    def put(item: T | BaseException | None) -> bool:
        while not (stop.is_set() or over.is_set()):
            try:
                made.put(item, timeout=POLL_S)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, who raises it
            put(error)

    thread = threading.Thread(target=make, name="ahead", daemon=True)
    thread.start()
    try:
        while not stop.is_set():
            try:
                item = made.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        over.set()
        thread.join()
