"""A ring shows the newest samples, whatever pieces they came in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.errors import RuleError
from decoders.dsp.buffers import Ring


@given(st.integers(1, 20), st.lists(st.integers(0, 50), max_size=12))
def test_last_is_the_tail_of_everything_pushed(capacity: int, sizes: list[int]) -> None:
    ring = Ring(capacity, 2)
    everything = np.arange(2.0 * sum(sizes)).reshape(-1, 2)
    done = 0
    for size in sizes:
        ring.push(everything[done : done + size])
        done += size
        n = len(ring)
        assert n == min(done, capacity)
        assert np.array_equal(ring.last(n), everything[done - n : done])


def test_a_window_is_contiguous_and_not_a_copy() -> None:
    ring = Ring(8, 3)
    ring.push(np.ones((13, 3)))
    assert ring.last(8).flags.c_contiguous
    assert ring.last(8).base is not None


@given(st.integers(0, 30), st.integers(0, 12), st.integers(0, 30))
def test_cut_gives_the_samples_at_their_place_or_refuses(
    pushed: int, length: int, position: int
) -> None:
    ring = Ring(10, 1)
    everything = np.arange(float(pushed))[:, None]
    ring.push(everything)
    if max(0, pushed - 10) <= position and position + length <= pushed:
        assert np.array_equal(ring.cut(position, length), everything[position : position + length])
    else:
        with pytest.raises(RuleError, match="the ring holds"):
            ring.cut(position, length)


def test_a_ring_without_room_is_refused() -> None:
    with pytest.raises(RuleError, match="at least 1"):
        Ring(0, 1)
