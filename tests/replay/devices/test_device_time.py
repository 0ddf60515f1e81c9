"""Device time wraps, jumps and repeats; samples keep their places."""

from hypothesis import given
from hypothesis import strategies as st

from replay.devices.device_time import WRAP_MS, DeviceTime


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
