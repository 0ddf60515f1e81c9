"""The fitted clock finds when samples were taken from when they arrived."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.devices.timing import SLEW_RATE, FittedClock

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
