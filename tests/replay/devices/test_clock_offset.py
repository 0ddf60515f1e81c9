"""The offset between two machines' clocks is followed, and never by a jump."""

import numpy as np
import pytest

from replay.devices.timing import OFFSET_SLEW_RATE, ClockOffset


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
