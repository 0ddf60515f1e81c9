"""Device time wraps, jumps and repeats; samples keep their places."""

from hypothesis import given
from hypothesis import strategies as st

from replay.devices.neuracle.jellyfish import WRAP_MS, DeviceTime


@given(st.integers(0, WRAP_MS - 1), st.lists(st.integers(0, 200), max_size=30))
def test_lost_samples_are_those_of_the_milliseconds_left_out(first_ms, jumps_ms):
    time, at = DeviceTime(), first_ms
    place = time.place(at % WRAP_MS, 10, 5)
    assert place is not None
    assert place.lost == 0
    for jump_ms in jumps_ms:
        at += 10 + 2 * jump_ms
        place = time.place(at % WRAP_MS, 10, 5)
        assert place is not None
        assert (place.start_ms, place.lost, place.skip) == (at, jump_ms, 0)


@given(st.integers(0, WRAP_MS - 1), st.integers(1, 10))
def test_what_was_there_already_is_not_taken_twice(first_ms, back):
    time = DeviceTime()
    for i in range(12):
        time.place((first_ms + 10 * i) % WRAP_MS, 10, 10)
    assert time.place((first_ms + 120 - 10 * back) % WRAP_MS, 10, 10) is None
    following = time.place((first_ms + 120) % WRAP_MS, 10, 10)
    assert following is not None
    assert following.lost == 0


def test_an_overlap_is_trimmed():
    time = DeviceTime()
    time.place(0, 10, 10)
    place = time.place(7, 10, 10)
    assert place is not None
    assert (place.start_ms, place.lost, place.skip) == (10, 0, 3)


def test_a_long_step_back_is_a_new_start():
    time = DeviceTime()
    time.place(100_000, 10, 10)
    place = time.place(0, 10, 10)
    assert place is not None
    assert place.lost is None
    again = time.place(10, 10, 10)
    assert again is not None
    assert again.lost == 0


def test_after_a_new_connection_a_step_back_of_any_size_is_a_new_start():
    for back_ms in (1, 10, 5000):
        time = DeviceTime()
        time.place(6000, 10, 10)
        time.restart()
        place = time.place(6010 - back_ms, 10, 10)
        assert place is not None
        assert (place.lost, place.skip) == (None, 0)
        following = time.place(6020 - back_ms, 10, 10)
        assert following is not None
        assert following.lost == 0


def test_after_a_new_connection_a_gap_is_still_counted_and_a_repeat_then_is_one():
    time = DeviceTime()
    time.place(0, 10, 10)
    time.restart()
    place = time.place(110, 10, 10)
    assert place is not None
    assert place.lost == 100
    assert time.place(110, 10, 10) is None


def test_a_connection_before_the_first_sample_changes_nothing():
    time = DeviceTime()
    time.restart()
    time.place(50, 10, 10)
    assert time.place(50, 10, 10) is None


def test_a_clock_that_starts_again_on_an_open_connection_is_accepted_after_a_second():
    time = DeviceTime()
    for ms in range(0, 5000, 10):
        time.place(ms, 10, 10)
    places = [time.place(ms, 10, 10) for ms in range(0, 4000, 10)]
    taken = [place for place in places if place is not None]
    assert len(places) - len(taken) == 100
    assert [place.lost for place in taken] == [None, *[0] * (len(taken) - 1)]


@given(st.lists(st.integers(0, WRAP_MS - 1), min_size=1, max_size=20))
def test_unwrapped_time_never_runs_backwards(starts):
    time, ends = DeviceTime(), 0
    for start in starts:
        time.restart()
        place = time.place(start, 10, 10)
        assert place is not None
        assert place.start_ms >= ends
        ends = place.start_ms + 10


def test_a_trigger_may_be_the_first_sign_of_a_restart():
    time = DeviceTime()
    time.place(6000, 10, 10)
    time.restart()
    trigger_ms = time.unwrap(3)
    place = time.place(0, 10, 10)
    assert place is not None
    assert (place.lost, place.skip, trigger_ms - place.start_ms) == (None, 0, 3)
