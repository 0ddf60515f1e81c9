"""What is made ahead comes out as it went in, however it is handed over."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.player.prefetch import ahead


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 60), st.integers(1, 12), st.integers(1, 7))
def test_the_same_items_in_the_same_order(n, count, batch):
    assert list(ahead(iter(range(n)), threading.Event(), count, batch)) == list(range(n))


def test_an_error_comes_out_where_it_would_have_come():
    def items():
        yield from range(7)
        raise ValueError("the seventh")

    got = ahead(items(), threading.Event(), 100, 5)
    assert [next(got) for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="the seventh"):
        next(got)


def test_the_first_item_does_not_wait_for_the_second():
    asked = threading.Event()

    def items():
        yield 1
        assert asked.wait(30)
        yield 2

    got = ahead(items(), threading.Event())
    assert next(got) == 1
    asked.set()
    assert list(got) == [2]


def test_no_more_is_made_than_asked_for():
    made = []

    def items():
        for n in range(1000):
            made.append(n)
            yield n

    got = ahead(items(), threading.Event(), 20, 5)
    assert next(got) == 0
    got.close()
    assert len(made) <= 20 + 2 * 5 + 1


def test_a_stop_ends_it_and_its_thread():
    stop = threading.Event()
    got = ahead(iter(int, 1), stop, 20, 5)
    assert next(got) == 0
    stop.set()
    assert list(got) == []
    assert all(thread.name != "ahead" for thread in threading.enumerate())
