"""A gap that nobody counts is told from a backlog that only comes late."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.devices.chunk import Chunk
from replay.devices.gaps import LONGEST_S, SILENCE_S, find_silent_gaps
from replay.devices.timing import SampleTimeline

RATE = 1000.0
N = 40


def chunks(arrivals, lost=None):
    """Chunks of 40 samples that count, received at these times; lost: what the device itself says of some."""
    return [
        (
            Chunk(
                np.arange(k * N, (k + 1) * N, dtype=np.float32)[:, None],
                lost=(lost or {}).get(k, 0),
            ),
            at,
        )
        for k, at in enumerate(arrivals)
    ]


def found(given_chunks):
    """Numbers of the chunks before which something was found to be lost."""
    out = list(find_silent_gaps(given_chunks, RATE))
    assert [(c.samples.tobytes(), at) for c, at in out] == [
        (c.samples.tobytes(), at) for c, at in given_chunks
    ]
    return [k for k, (chunk, _) in enumerate(out) if chunk.lost is None]


def due(n):
    return 100 + 0.04 * np.arange(1, n + 1)


@pytest.mark.parametrize("gap_s", [0.12, 0.4, 1.5, 60.0])
def test_a_device_that_goes_on_as_if_nothing_had_been_has_lost_samples(gap_s):
    arrivals = due(100) + gap_s * (np.arange(100) >= 30)
    assert found(chunks(arrivals)) == [30]


@pytest.mark.parametrize("stall_s", [0.12, 0.4, 1.5, 60.0])
@pytest.mark.parametrize("hurry", [1e-4, 0.01, 0.03])
def test_what_comes_late_but_all_of_it_is_not_lost(stall_s, hurry):
    """hurry: between two chunks of the backlog."""
    n = int(30 + 40 * stall_s / 0.04)
    back = due(n)[29] + stall_s + hurry * np.arange(-29, n - 29)
    arrivals = np.where(np.arange(n) >= 30, np.maximum(due(n), back), due(n))
    assert found(chunks(arrivals)) == []


@given(st.lists(st.floats(0.0, 0.09), min_size=2, max_size=80))
def test_the_networks_whims_are_no_gaps(late):
    arrivals = np.maximum.accumulate(due(len(late)) + late)
    assert found(chunks(arrivals)) == []


@given(
    st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60),
    st.dictionaries(st.integers(1, 59), st.sampled_from([None, 120]), max_size=3),
)
def test_nothing_is_lost_doubled_or_held_for_long_whatever_comes(steps, lost):
    arrived = chunks(100 + np.cumsum(steps), lost)
    seen = []

    def watched():
        for chunk, at in arrived:
            seen.append(at)
            yield chunk, at

    for _, at in find_silent_gaps(watched(), RATE):
        between = [later for later in seen if later > at]
        assert not between or between[0] - at <= LONGEST_S + 3.0
    assert set(found(arrived)) >= {
        k for k, value in lost.items() if value is None and k < len(steps)
    }


def test_a_gap_that_the_device_tells_is_left_as_it_is():
    arrivals = due(100) + 1.5 * (np.arange(100) >= 30)
    assert found(chunks(arrivals, {30: 1500})) == []


def test_the_timeline_jumps_by_what_was_lost():
    arrivals = due(100) + 1.5 * (np.arange(100) >= 30)
    timeline = SampleTimeline(RATE)
    placed = [timeline.place(*one) for one in find_silent_gaps(chunks(arrivals), RATE)]
    assert [p.lost for p in placed if p.lost] == [pytest.approx(1500, abs=2)]
    assert placed[30].start == pytest.approx(30 * N + 1500, abs=2)
    assert timeline.stamp(placed[-1].stop - 1) == pytest.approx(arrivals[-1], abs=1e-3)
    assert SILENCE_S < 1.5
