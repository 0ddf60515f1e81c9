"""Time stamps of a regular stream: where samples are missing, and the stamps without jitter."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
Counts = NDArray[np.int64]

WHOLE_WITHIN, MOST_ODD, ODD_SHARE = 0.1, 2, 1e-4
"""Stamps are even if so few of their steps (a number, and a share) are no whole number of samples."""

WHILE_S = 2.0
"""What is delayed comes within this time."""
STEP_SAMPLES = 1.5
"""A smaller step of the stamps is no gap."""
RISE_SAMPLES, TIMES_USUAL = 0.5, 10.0
"""A rise of the smallest delay is no jitter if it is above this, and above so many usual ones."""
LARGEST_DRIFT = 2e-3
"""Largest difference of two clocks, in seconds a second."""
CLOCK_SET_S = 1.0
"""Stamps that go back by more than this are those of a clock that was set."""


def missing_samples(stamps: Seconds, rate: float) -> Counts:
    """Number of samples missing after each one but the last. stamps: with or without jitter."""
    steps = np.diff(stamps) * rate
    whole = np.rint(steps)
    odd = np.count_nonzero((np.abs(steps - whole) > WHOLE_WITHIN) | (whole < 1))
    if odd <= MOST_ODD + ODD_SHARE * len(steps):
        return np.asarray(np.maximum(whole - 1, 0), dtype=np.int64)
    return _missing_with_jitter(stamps, rate, steps > STEP_SAMPLES)


def _missing_with_jitter(stamps: Seconds, rate: float, may_be: NDArray[np.bool_]) -> Counts:
    """After missing samples the stamps stay later; after samples that were only delayed they come back.

    So the smallest delay of a while before a step is compared with the smallest of a while after it.
    """
    from scipy.ndimage import minimum_filter1d

    delays = stamps - stamps[0] - np.arange(len(stamps)) / rate
    half = max(4, round(WHILE_S * rate / 2))
    before = minimum_filter1d(delays, 2 * half + 1, origin=half)[:-1]
    after = minimum_filter1d(delays, 2 * half + 1, origin=-half)[1:]
    rises = after - before
    low, middle = np.quantile(rises, (0.05, 0.25))  # gaps are above these
    most = 2 * LARGEST_DRIFT * WHILE_S
    drift = min(max(float(middle), -most), most)
    limit = drift + max(RISE_SAMPLES / rate, TIMES_USUAL * float(middle - low))
    missing = np.zeros(len(may_be), dtype=np.int64)
    begin = 0
    for i in np.flatnonzero(may_be & (rises > limit)).tolist():
        # What is before another gap does not count.
        rise = float(after[i] - delays[max(begin, i - 2 * half) : i + 1].min())
        if rise > limit:
            missing[i], begin = round((rise - drift) * rate), i + 1
    return missing


def without_jitter(stamps: Seconds, missing: Counts) -> Seconds:
    """A straight line through the stamps between gaps, and between settings of the clock."""
    set_back = np.diff(stamps) < -CLOCK_SET_S
    edges = [0, *(np.flatnonzero((missing > 0) | set_back) + 1).tolist(), len(stamps)]
    even = stamps.copy()
    for begin, end in pairwise(edges):
        if end - begin > 1:
            numbers = np.arange(end - begin) - (end - begin - 1) / 2
            piece = stamps[begin:end]
            slope = float(numbers @ (piece - piece[0])) / float(numbers @ numbers)
            even[begin:end] = piece.mean() + slope * numbers
    return even
