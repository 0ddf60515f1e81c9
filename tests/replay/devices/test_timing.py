"""Sample numbers and stamps: timeline, fitted clock, clock offset, wall clock."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.devices.chunk import Chunk
from replay.devices.timing import (
    OFFSET_SLEW_RATE,
    SLEW_RATE,
    ClockOffset,
    FittedClock,
    GivenClock,
    SampleTimeline,
    WallClock,
)


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


def test_after_a_gap_of_unknown_length_stamps_begin_again_at_the_arrival():
    line = SampleTimeline(1000)
    line.place(chunk(40), 1.0)
    line.stamp(39)
    placed = line.place(chunk(40, lost=None), 3.0404)
    assert line.stamp(placed.stop - 1) == 3.0404


def test_numbers_never_go_back_for_a_negative_time():
    line = SampleTimeline(1000)
    line.place(chunk(40), 1.0)
    assert line.place(chunk(40, lost=None), 1.0).start == 40


def test_a_device_that_claims_a_gap_longer_than_time_is_not_accepted():
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


RATE = 1000.0


def simulate(
    drift_ppm: float, seed: int, seconds: float = 120, packet: int = 40, jitter_s: float = 2e-3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(index, true time, arrival) of each packet's last sample, with jitter and stalls."""
    random = np.random.default_rng(seed)
    n = int(seconds * RATE / packet)
    index = np.arange(1, n + 1) * packet - 1
    true = 5000 + index / RATE * (1 + drift_ppm * 1e-6)
    arrival = true + random.exponential(jitter_s, n)
    for stall in random.choice(n, max(1, n // 500)):
        arrival[stall] += random.uniform(0.05, 0.5)
    return index, true, np.maximum.accumulate(arrival)


def stamps(index: np.ndarray, arrival: np.ndarray, clock: FittedClock | None = None) -> np.ndarray:
    clock = clock or FittedClock(RATE)
    out = []
    for i, t in zip(index.tolist(), arrival.tolist(), strict=True):
        clock.observe(i, t)
        out.append(clock.stamp(i))
    return np.array(out)


@pytest.mark.parametrize("drift_ppm", [-400, -30, 0, 30, 400])
@pytest.mark.parametrize("seed", [1, 2])
def test_after_10_s_stamps_are_right_to_a_tenth_of_a_millisecond(drift_ppm, seed):
    index, true, arrival = simulate(drift_ppm, seed)
    error = (stamps(index, arrival) - true)[index > 10 * RATE]
    assert error.std() < 0.1e-3
    assert abs(error.mean()) < 0.1e-3


def test_stamping_on_arrival_would_be_far_worse():
    index, true, arrival = simulate(30, 1)
    fitted = (stamps(index, arrival) - true)[index > 10 * RATE]
    assert (arrival - true)[index > 10 * RATE].std() > 100 * fitted.std()


def test_drift_is_found():
    for drift_ppm in (-30.0, 30.0, 400.0):
        clock = FittedClock(RATE)
        index, _, arrival = simulate(drift_ppm, 3)
        stamps(index, arrival, clock)
        assert clock.drift_ppm == pytest.approx(drift_ppm, abs=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 200), st.floats(-0.3, 0.5), st.booleans()), min_size=2, max_size=80
    )
)
def test_stamps_never_run_backwards_whatever_arrives(steps):
    clock, index, last = FittedClock(RATE), -1, -np.inf
    for n, late_s, restart in steps:
        index += n
        if restart:
            clock.restart()
        clock.observe(index, 100 + index / RATE + late_s)
        for sample in (index - n // 2, index):
            stamp = clock.stamp(sample)
            assert stamp >= last
            last = stamp


def test_a_stamp_moves_slowly():
    clock = FittedClock(RATE)
    clock.observe(39, 1.0)
    clock.observe(79, 0.9)  # 140 ms quicker than the first: the line follows, but not at once
    before = clock.stamp(79)
    clock.observe(119, 0.94)
    assert clock.stamp(119) - before == pytest.approx(0.04 - SLEW_RATE * 0.04, abs=1e-9)


@pytest.mark.parametrize("backlog_s", [0.5, 4.0])
def test_a_backlog_that_is_the_first_to_arrive_does_not_put_stamps_into_the_future(backlog_s):
    index, true, arrival = simulate(30, 4, seconds=60, jitter_s=1e-4)
    arrival = np.maximum(arrival, true[0] + backlog_s + 1e-4 * np.arange(len(index)))
    stamped = stamps(index, arrival)
    after_it = true > true[0] + 2 * backlog_s
    assert (stamped - arrival).max() < 0.11 * backlog_s
    assert np.abs(stamped - true)[after_it].max() < 10e-3
    assert (np.diff(stamped) > 0).all()


def test_a_counted_gap_keeps_the_line():
    index, true, arrival = simulate(30, 5)
    kept = (index < 40 * RATE) | (index > 55 * RATE)
    error = stamps(index[kept], arrival[kept]) - true[kept]
    assert error[index[kept] > 10 * RATE].std() < 0.1e-3


def test_a_restart_forgets_the_height_at_once():
    clock = FittedClock(RATE)
    index, _, arrival = simulate(0, 6, seconds=20)
    stamps(index, arrival, clock)
    clock.restart()
    clock.observe(20_039, 9000.0)
    assert clock.stamp(20_039) == 9000.0


def test_small_chunks_are_fitted_as_well():
    index, true, arrival = simulate(30, 7, seconds=30, packet=1)
    error = (stamps(index, arrival) - true)[index > 10 * RATE]
    assert error.std() < 0.1e-3


def test_it_begins_with_what_was_measured():
    assert ClockOffset(lambda: -321.5, 10.0).at(10.0) == -321.5


def test_it_follows_a_drift_through_noise_and_stamps_never_run_backwards():
    """40 ppm of drift, measured with 0.5 ms of noise; a packet each 40 ms, for 5 minutes."""
    noise = np.random.default_rng(3)
    time = [0.0]

    def measure() -> float:
        return 50.0 - 40e-6 * time[0] + noise.normal(0, 0.5e-3)

    offset = ClockOffset(measure, 0.0)
    moments = np.arange(1, 7500) * 0.04
    followed = []
    for time[0] in moments.tolist():
        followed.append(offset.at(time[0]))
    wrong = np.array(followed) - (50.0 - 40e-6 * moments)
    assert np.abs(wrong[250:]).max() < 2e-3
    assert np.abs(np.diff(followed)).max() <= OFFSET_SLEW_RATE * 0.04 + 1e-12
    assert np.diff(moments + followed).min() > 0


def test_a_measurement_that_failed_moves_it_by_next_to_nothing():
    answers = iter([7.0, 0.0, 7.0])
    offset = ClockOffset(lambda: next(answers), 0.0)
    assert offset.at(5.0) == pytest.approx(7.0, abs=2e-4)
    assert offset.at(9.0) == pytest.approx(7.0, abs=4e-4)
    assert [offset.at(10.0 + i) for i in range(3)][-1] == pytest.approx(7.0, abs=1e-9)


class TwoClocks:
    def __init__(self) -> None:
        self.steady_s, self.wall_ahead_s = 100.0, 1.7e9
        self.random = random.Random(1)

    def steady(self) -> float:
        self.steady_s += self.random.choice([1e-6, 1e-6, 5e-3])  # now and then we are put to sleep
        return self.steady_s

    def wall(self) -> float:
        return self.steady_s + self.wall_ahead_s


def test_the_offset_is_tight_and_stays_as_it_is():
    clocks = TwoClocks()
    wall = WallClock(clocks.steady, clocks.wall)
    assert wall.offset_s == pytest.approx(-1.7e9, abs=1e-5)
    first = wall.offset_s
    assert [wall.check() for _ in range(50)] == [0.0] * 50
    assert wall.offset_s == first


def test_a_clock_that_was_set_is_followed_and_reported():
    clocks = TwoClocks()
    wall = WallClock(clocks.steady, clocks.wall)
    clocks.wall_ahead_s += 0.5
    assert wall.check() == pytest.approx(-0.5, abs=1e-4)
    assert wall.check() == 0.0
    assert wall.offset_s == pytest.approx(-1.7e9 - 0.5, abs=1e-4)


def test_a_measurement_that_is_a_little_off_moves_nothing():
    clocks = TwoClocks()
    wall = WallClock(clocks.steady, clocks.wall)
    clocks.wall_ahead_s += 0.0005
    assert wall.check() == 0.0
