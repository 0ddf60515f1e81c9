"""Read-ahead gives what the signal holds, before it is asked for, without a copy where it can."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from replay.model.events import KnownEvents
from replay.model.signal import ArraySignal
from replay.transform.readahead import PIECES_AHEAD, ReadAhead

SIGNAL = ArraySignal(np.arange(200, dtype=np.float32).reshape(2, 100))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 60)), max_size=20), st.integers(1, 50))
def test_any_reading_in_any_order_gives_the_signal(spans, piece):
    with ReadAhead(SIGNAL, KnownEvents(()), piece) as ahead:
        for start, length in spans:
            stop = min(start + length, 100)
            np.testing.assert_array_equal(ahead.read(start, stop), SIGNAL.read(start, stop))


def test_a_packet_inside_a_piece_is_a_view_of_it():
    with ReadAhead(SIGNAL, KnownEvents(()), 50) as ahead:
        first, second = ahead.read(0, 10), ahead.read(10, 20)
        assert first.base is second.base
        assert first.base is not None
        assert second.flags.c_contiguous


def test_the_next_pieces_are_read_before_they_are_asked_for():
    read = threading.Event()

    class Watched(ArraySignal):
        def read(self, start, stop):
            if start == 10 * PIECES_AHEAD:
                read.set()
            return super().read(start, stop)

    with ReadAhead(Watched(SIGNAL.data), KnownEvents(()), 10) as ahead:
        ahead.read(0, 5)
        assert read.wait(timeout=30)


def test_a_disk_that_gives_nothing_is_told_and_not_waited_for_for_ever():
    gate = threading.Event()

    class Stuck(ArraySignal):
        def read(self, start, stop):
            gate.wait(30)
            return super().read(start, stop)

    with ReadAhead(Stuck(SIGNAL.data), KnownEvents(()), 10, patience_s=0.01) as ahead:
        with pytest.raises(SourceError, match="the disk gives nothing"):
            ahead.read(0, 5)
        gate.set()


def test_an_error_of_the_signal_comes_out_where_its_samples_are_asked_for():
    class Broken(ArraySignal):
        def read(self, start, stop):
            if start >= 50:
                raise SourceError("cut off")
            return super().read(start, stop)

    with ReadAhead(Broken(SIGNAL.data), KnownEvents(()), 10) as ahead:
        ahead.read(0, 50)
        with pytest.raises(SourceError, match="cut off"):
            ahead.read(50, 51)
