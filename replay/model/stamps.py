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
OFTEN_LOW, RARELY_LOW = 0.25, 0.05
"""Shares of rises that are below a usual one, and below a small one: gaps are at the other end."""
CLOCK_SET_S = 1.0
"""Stamps that go back by more than this are those of a clock that was set."""


def missing_samples(stamps: Seconds, rate: float) -> Counts:
    """Number of samples missing after each one but the last; none where a stamp is no number.

    stamps: with or without jitter.
    """
    steps = np.nan_to_num(np.diff(stamps) * rate, nan=1.0, posinf=1.0, neginf=1.0)
    whole = np.rint(steps)
    odd = np.count_nonzero((np.abs(steps - whole) > WHOLE_WITHIN) | (whole < 1))
    if odd <= MOST_ODD + ODD_SHARE * len(steps):
        return np.asarray(np.maximum(whole - 1, 0), dtype=np.int64)
    return _missing_with_jitter(steps, rate)


def _missing_with_jitter(steps: NDArray[np.float64], rate: float) -> Counts:
    """The same by the steps of the stamps, in samples.

    After missing samples the stamps stay later; after samples that were only delayed they come back.

    So the smallest delay of a while before a step is compared with the smallest of a while after it.
    """
    from scipy.ndimage import minimum_filter1d

    delays = np.cumsum(np.append(0.0, steps - 1)) / rate
    half = max(4, round(WHILE_S * rate / 2))
    # The rate may not be the stated one.
    apart = min(10 * half, len(delays) // 2)
    slope_s = float(np.quantile(delays[apart:] - delays[:-apart], OFTEN_LOW)) / apart
    delays, rate = delays - slope_s * np.arange(len(delays)), 1 / (1 / rate + slope_s)
    before = minimum_filter1d(delays, 2 * half + 1, origin=half)[:-1]
    after = minimum_filter1d(delays, 2 * half + 1, origin=-half)[1:]
    rises = after - before
    usual, low = np.quantile(rises, (OFTEN_LOW, RARELY_LOW)).tolist()
    limit = usual + max(RISE_SAMPLES / rate, TIMES_USUAL * (usual - low))
    missing = np.zeros(len(steps), dtype=np.int64)
    begin = 0
    for i in np.flatnonzero((steps > STEP_SAMPLES) & (rises > limit)).tolist():
        # What is before another gap does not count.
        rise = float(after[i] - delays[max(begin, i - 2 * half) : i + 1].min())
        if rise > limit:
            missing[i], begin = round((rise - usual) * rate), i + 1
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
