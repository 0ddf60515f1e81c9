import threading

import numpy as np
import pytest

from bci_stream.clock import (
    LEAST_SPIN_S,
    MOST_SPIN_S,
    SPIN_COVERS,
    ManualClock,
    RealClock,
    learned_spin,
)


def test_a_deadline_is_never_left_early() -> None:
    clock = RealClock()
    deadline = clock.now() + 0.002
    assert clock.wait_until(deadline)
    assert clock.now() >= deadline


def test_a_wait_ends_when_it_is_stopped() -> None:
    stop = threading.Event()
    stop.set()
    assert not RealClock().wait_until(RealClock().now() + 3600, stop)
    assert not ManualClock().wait_until(1e9, stop)


def test_a_manual_clock_moves_when_it_is_waited_on() -> None:
    clock = ManualClock(10.0)
    assert clock.wait_until(12.5)
    assert clock.now() == 12.5
    clock.wait_until(11.0)
    assert clock.now() == 12.5
    clock.advance(1.0)
    assert clock.now() == 13.5


@pytest.mark.parametrize("usual_s", [60e-6, 120e-6, 180e-6])
def test_the_spin_comes_to_cover_nearly_all_sleeps_and_hardly_more(usual_s: float) -> None:
    late = np.random.default_rng(1).normal(usual_s, 10e-6, 5000)
    late[::50] = 0.05  # a busy machine: such a sleep can't be covered, and must not count for more
    spin, spins = MOST_SPIN_S, []
    for one in late:
        spins.append(spin := learned_spin(spin, one))
    settled = slice(2000, None)
    covered = np.mean(np.array(spins)[settled] > late[settled])
    assert covered == pytest.approx(SPIN_COVERS, abs=0.01)
    assert np.mean(spins[settled]) < usual_s + 60e-6


def test_the_spin_stays_within_its_bounds() -> None:
    spin = MOST_SPIN_S
    for _ in range(100):
        spin = learned_spin(spin, 1.0)
    assert spin == MOST_SPIN_S
    for _ in range(1000):
        spin = learned_spin(spin, 0.0)
    assert spin == LEAST_SPIN_S
