"""Missing samples by stamps that are even, or that jitter as those of a program that stamps on arrival."""

import numpy as np
import pytest

from replay.model.stamps import missing_samples, without_jitter

RATE, N, CHUNK = 250.0, 15_000, 10
TOLERANCE_S = 0.004


def kept(*lost: tuple[int, int]) -> np.ndarray:
    """The numbers of the samples without those from a to b."""
    return np.setdiff1d(np.arange(N), np.concatenate([np.arange(*span) for span in lost] or [[]]))


def stamped_on_arrival(
    numbers: np.ndarray, late_s: float, held_up: tuple[float, ...] = ()
) -> np.ndarray:
    """Stamps of chunks: the last sample's is its arrival, those before it follow at the rate.

    held_up: seconds at which what comes is held up for half a second.
    """
    rng = np.random.default_rng(0)
    ends = np.minimum(np.arange(CHUNK - 1, len(numbers) + CHUNK - 1, CHUNK), len(numbers) - 1)
    arrivals = numbers[ends] / RATE + rng.exponential(late_s, len(ends))
    for at in held_up:
        waits = (arrivals > at) & (arrivals < at + 0.5)
        arrivals[waits] = at + 0.5
    arrivals = np.maximum.accumulate(arrivals)
    chunk = np.minimum(np.arange(len(numbers)) // CHUNK, len(ends) - 1)
    return arrivals[chunk] - (ends[chunk] - np.arange(len(numbers))) / RATE


@pytest.mark.parametrize("ppm", [0, 200, 20_000])
def test_each_missing_sample_is_found_in_even_stamps(ppm):
    numbers = kept((1000, 1001), (3000, 3003), (5000, 5050))
    missing = missing_samples(100 + numbers / (RATE * (1 + ppm / 1e6)), RATE)
    assert np.flatnonzero(missing).tolist() == [999, 2998, 4995]
    assert missing[missing > 0].tolist() == [1, 3, 50 - (ppm == 20_000)]


@pytest.mark.parametrize("late_s", [0.002, 0.01])
@pytest.mark.parametrize("held_up", [(), (10.0, 25.0, 40.0)])
def test_samples_that_come_late_are_not_missing(late_s, held_up):
    assert not missing_samples(stamped_on_arrival(np.arange(N), late_s, held_up), RATE).any()


@pytest.mark.parametrize("slower", [1.002, 1.02, 1.09])
def test_a_rate_that_is_not_the_stated_one_is_no_loss(slower):
    assert not missing_samples(stamped_on_arrival(np.arange(N), 0.002) * slower, RATE).any()


@pytest.mark.parametrize("late_s", [0.002, 0.01])
@pytest.mark.parametrize("lost", [50, 750])
def test_a_loss_is_counted_and_stamps_beside_it_are_right(late_s, lost):
    numbers = kept((2000, 2000 + lost))
    stamps = stamped_on_arrival(numbers, late_s)
    missing = missing_samples(stamps, RATE)
    assert abs(int(missing.sum()) - lost) <= 1
    assert missing[1999] > 0
    away_s = without_jitter(stamps, missing) - numbers / RATE - late_s
    assert np.abs(away_s[:1900]).max() < TOLERANCE_S
    assert np.abs(away_s[2100:]).max() < TOLERANCE_S


def test_a_clock_that_was_set_back_begins_another_line():
    stamps = np.concatenate([np.arange(500) / RATE, np.arange(500) / RATE - 80])
    missing = missing_samples(stamps, RATE)
    assert not missing.any()
    np.testing.assert_allclose(without_jitter(stamps, missing), stamps, atol=1e-9)


@pytest.mark.parametrize("late_s", [0.0, 0.01])
def test_a_stamp_that_is_no_number_is_no_loss(late_s):
    stamps = stamped_on_arrival(np.arange(N), late_s)
    stamps[[5, 705]] = np.nan, np.inf
    assert not missing_samples(stamps, RATE).any()


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_few_samples(n):
    stamps = np.arange(n) / RATE
    missing = missing_samples(stamps, RATE)
    assert not missing.any()
    np.testing.assert_allclose(without_jitter(stamps, missing), stamps)
