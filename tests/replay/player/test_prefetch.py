"""Prefetch: the same items in the same order, made ahead by a thread."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from replay.player.prefetch import Prefetch


@settings(max_examples=30)
@given(st.integers(0, 60), st.integers(1, 12), st.integers(1, 7))
def test_the_same_items_in_the_same_order(n, ahead, batch) -> None:
    with Prefetch(iter(range(n)), threading.Event(), count=ahead, batch=batch) as items:
        assert list(items) == list(range(n))


def failing(n: int) -> Iterator[int]:
    yield from range(n)
    raise ValueError("can't be read")


def test_an_error_of_the_source_comes_after_all_items_before_it() -> None:
    with Prefetch(failing(7), threading.Event(), batch=5) as items:
        iterator = iter(items)
        assert [next(iterator) for _ in range(7)] == list(range(7))
        with pytest.raises(ValueError, match="can't be read"):
            next(iterator)


@pytest.mark.parametrize("batch", [1, 25])
def test_the_first_item_does_not_wait_for_the_second(batch) -> None:
    asked = threading.Event()

    def made() -> Iterator[int]:
        yield 1
        assert asked.wait(30)
        yield 2

    with Prefetch(made(), threading.Event(), batch=batch) as items:
        iterator = iter(items)
        assert next(iterator) == 1
        asked.set()
        assert list(iterator) == [2]


def test_no_more_is_made_than_the_limit() -> None:
    made = []

    def numbers() -> Iterator[int]:
        for n in count():
            made.append(n)
            yield n

    with Prefetch(numbers(), threading.Event(), count=20, batch=5) as items:
        assert next(iter(items)) == 0
    assert len(made) <= 20 + 2 * 5 + 1


def test_a_stop_ends_it_and_its_thread() -> None:
    stop = threading.Event()
    with Prefetch(count(), stop, count=20, batch=5) as items:
        iterator = iter(items)
        assert next(iterator) == 0
        stop.set()
        assert list(iterator) == []
    assert all(thread.name != "prefetch" for thread in threading.enumerate())


def test_a_source_that_gives_nothing_times_out_and_idle_is_called_meanwhile() -> None:
    released = threading.Event()
    calls: list[bool] = []

    def stuck() -> Iterator[int]:
        released.wait(30)
        yield 1

    stop = threading.Event()
    with Prefetch(stuck(), stop, timeout_s=0.01, idle=lambda: calls.append(True)) as items:
        with pytest.raises(SourceError, match=r"timed out after 0\.01 s reading the next packet"):
            next(iter(items))
        released.set()
    assert calls
