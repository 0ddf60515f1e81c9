import threading
from contextlib import suppress

import numpy as np
import pytest

from bci_stream.clock import (
    FIRST_SPIN_S,
    LEAST_SPIN_S,
    MOST_SPIN_S,
    SPIN_COVERS,
    ManualClock,
    OffsetTrack,
    RealClock,
    StallWatch,
    learned_spin,
    thread_beside,
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
    late[::5] = 0.05  # a busy machine: what can't be covered must not make it spin more
    coverable = late < MOST_SPIN_S
    spin, spins = MOST_SPIN_S, []
    for one in late:
        spins.append(spin)
        spin = learned_spin(spin, one)
    settled = slice(2000, None)
    covered = np.mean((np.array(spins) > late)[settled][coverable[settled]])
    assert covered == pytest.approx(SPIN_COVERS, abs=0.01)
    assert np.mean(spins[settled]) < usual_s + 60e-6


def test_the_spin_stays_within_its_bounds() -> None:
    spin = MOST_SPIN_S
    for _ in range(100):
        spin = learned_spin(spin, MOST_SPIN_S)
    assert spin == MOST_SPIN_S
    for _ in range(1000):
        spin = learned_spin(spin, 0.0)
    assert spin == LEAST_SPIN_S


class Sleeper:
    """Time that passes only in sleeps, which end late, and by being asked for: a microsecond each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late_s: float) -> None:
        self.at, self._late_s = 0.0, late_s
        self.last_s = 0.0
        monkeypatch.setattr("bci_stream.clock.time.sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.at += seconds + self._late_s
        self.last_s = seconds

    def now(self) -> float:
        self.at += 1e-6
        return self.at


def test_a_core_that_wakes_slowly_after_a_sleep_does_not_make_a_deadline_late(monkeypatch) -> None:
    time = Sleeper(monkeypatch, 250e-6)
    clock = RealClock(time.now)
    late = []
    for number in range(1, 400):
        deadline = number * 0.04
        clock.wait_until(deadline)
        late.append(time.at - deadline)
    assert np.mean(np.array(late[100:]) < 5e-6) > SPIN_COVERS - 0.02


def test_deadlines_that_have_passed_do_not_change_the_spin(monkeypatch) -> None:
    time = Sleeper(monkeypatch, 0.0)
    clock = RealClock(time.now)
    time.at = 10.0
    for _ in range(100):
        clock.wait_until(time.at - 1e-4)
    clock.wait_until(time.at + 0.04)
    assert time.last_s == pytest.approx(0.04 - FIRST_SPIN_S, abs=1e-5)


def test_after_a_sleep_the_warm_up_runs_before_the_deadline_and_counts_as_lateness(
    monkeypatch,
) -> None:
    time = Sleeper(monkeypatch, 50e-6)
    clock = RealClock(time.now)
    late, warmed = [], []

    def warm_up() -> None:
        warmed.append(time.at)
        time.at += 200e-6

    for number in range(1, 400):
        deadline = number * 0.04
        clock.wait_until(deadline, warm_up=warm_up)
        late.append(time.at - deadline)
    assert all(at < number * 0.04 for number, at in enumerate(warmed, 1))
    assert np.mean(np.array(late[100:]) < 5e-6) > SPIN_COVERS - 0.02


def test_a_late_wait_does_no_warm_up(monkeypatch) -> None:
    def fails() -> None:
        pytest.fail("there was no time to warm up")

    for clock in (RealClock(), ManualClock()):
        assert clock.wait_until(clock.now() - 1.0, warm_up=fails)
    halted = RealClock(Sleeper(monkeypatch, late_s=1.0).now)
    assert halted.wait_until(halted.now() + 0.04, warm_up=fails)


def test_a_thread_beside_a_block_ends_with_it_also_after_an_error() -> None:
    ended = []

    def run(over: threading.Event) -> None:
        assert over.wait(30)
        ended.append(threading.current_thread().name)

    with suppress(ValueError), thread_beside(run, "beside"):
        assert ended == []
        raise ValueError
    assert ended == ["beside"]


class TestStallWatch:
    def test_a_gap_is_found_with_its_begin_and_end_and_given_once(self) -> None:
        clock = ManualClock(100.0)
        looks = threading.Semaphore(0)

        def now() -> float:
            looks.release()
            return clock.now()

        def wait_for_looks(n: int) -> None:
            for _ in range(n):
                assert looks.acquire(timeout=20)

        with StallWatch(now, longest_s=0.25) as watch:
            wait_for_looks(2)
            clock.advance(0.25)  # no more than is allowed
            wait_for_looks(3)
            assert watch.take() == []
            clock.advance(1.5)
            wait_for_looks(3)
            assert watch.take() == [(100.25, 101.75)]
            assert watch.take() == []

    def test_a_stall_that_has_just_ended_is_found_by_take(self) -> None:
        clock = ManualClock(100.0)
        watch = StallWatch(clock.now, longest_s=0.25)
        clock.advance(1.5)
        assert watch.take() == [(100.0, 101.5)]
        assert watch.take() == []


class TestOffsetTrack:
    def test_drift_and_jitter_follow_from_the_measurements(self) -> None:
        track = OffsetTrack()
        for second in range(60):
            noise_s = 0.0001 if second % 2 else -0.0001
            track.add(100.0 + second, 5000.0 + 20e-6 * second + noise_s)
        assert track.offset_s == pytest.approx(5000.00128)
        assert track.drift_ppm == pytest.approx(20, abs=0.5)
        assert track.jitter_s == pytest.approx(0.0001, rel=0.05)
        assert str(track) == "clock offset +5000.0013 s, drift +20.2 ppm, jitter 0.10 ms"

    def test_a_clock_of_this_machine_is_no_news(self) -> None:
        track = OffsetTrack()
        track.add(0.0, 0.00002)
        assert not track.is_news()
        assert str(track) == "clock as here"

    def test_an_offset_is_news_once_and_again_when_it_has_changed(self) -> None:
        track = OffsetTrack()
        track.add(0.0, -3.0)
        assert track.is_news()
        assert not track.is_news()
        track.add(2.0, -3.004)
        assert not track.is_news()
        track.add(4.0, -3.006)
        assert track.is_news()
        assert track.drift_ppm is None  # 4 s are too short

    def test_a_value_that_was_not_measured_again_does_not_count_twice(self) -> None:
        track = OffsetTrack()
        for second in range(100):
            track.add(float(second), 1.0)
        assert track.drift_ppm is None
