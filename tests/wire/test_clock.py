import threading

from bci_stream.clock import ManualClock, RealClock


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
