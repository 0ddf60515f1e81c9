"""Samples keep their numbers over gaps: counted where the device counts, else by time."""

import numpy as np

from replay.devices.chunk import Chunk
from replay.devices.timing import GivenClock, SampleTimeline


def chunk(n: int, lost: int | None = 0, **more: object) -> Chunk:
    return Chunk(np.zeros((n, 2), np.float32), (), lost, **more)  # type: ignore[arg-type]


def test_chunks_follow_each_other():
    line = SampleTimeline(1000)
    assert [line.place(chunk(40), 0.04 * i).start for i in range(3)] == [0, 40, 80]


def test_a_counted_gap_moves_the_numbers_by_the_count():
    line = SampleTimeline(1000)
    line.place(chunk(40), 1.0)
    placed = line.place(chunk(40, lost=200), 1.24)
    assert (placed.start, placed.lost, placed.exact) == (240, 200, True)


def test_a_gap_of_unknown_length_is_measured_by_time():
    line = SampleTimeline(1000)
    line.place(chunk(40), 1.0)
    placed = line.place(chunk(40, lost=None), 3.04)
    assert (placed.start, placed.lost, placed.exact) == (2040, 2000, False)
    assert line.place(chunk(40), 3.08).start == 2080


def test_after_a_gap_of_unknown_length_stamps_begin_anew_at_the_arrival():
    line = SampleTimeline(1000)
    line.place(chunk(40), 1.0)
    line.stamp(39)
    placed = line.place(chunk(40, lost=None), 3.0404)
    assert line.stamp(placed.stop - 1) == 3.0404


def test_numbers_never_go_back_where_time_says_less_than_nothing():
    line = SampleTimeline(1000)
    line.place(chunk(40), 1.0)
    assert line.place(chunk(40, lost=None), 1.0).start == 40


def test_a_device_that_claims_a_gap_longer_than_time_is_not_believed():
    line = SampleTimeline(1000)
    line.place(chunk(40), 1.0)
    placed = line.place(chunk(40, lost=3_000_000), 1.04)
    assert (placed.start, placed.exact) == (40, False)


def test_before_the_first_chunk_nothing_is_lost():
    assert SampleTimeline(1000).place(chunk(40, lost=None), 5.0).start == 0


def test_held_back_samples_are_stamped_as_if_they_had_not_been():
    held, plain = SampleTimeline(1000), SampleTimeline(1000)
    held.place(chunk(40, newer=20), 1.02)
    plain.place(chunk(40), 1.0)
    assert held.stamp(39) == plain.stamp(39)


def test_a_stamp_of_its_own_is_not_moved_by_what_is_held_back():
    line = SampleTimeline(100, GivenClock(100))
    line.place(chunk(10, stamp=7.0, newer=5), 123.0)
    assert line.stamp(9) == 7.0


def test_stamps_that_are_given_are_kept():
    line = SampleTimeline(100, GivenClock(100))
    line.place(chunk(10, stamp=7.0), 123.0)
    assert line.stamp(9) == 7.0
    assert line.clock.offset_s == 7.0 - 0.09
    line.place(chunk(10, stamp=7.1031), 456.0)
    assert line.stamp(19) == 7.1031
