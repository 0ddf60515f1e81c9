"""Unix time is turned into LSL time by a fixed offset, until somebody sets the clock."""

import random

import pytest

from replay.devices.timing import WallClock


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


def test_a_clock_that_was_set_is_followed_and_told():
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
