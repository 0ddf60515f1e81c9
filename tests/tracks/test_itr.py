"""Laws of the information transfer rate."""

from itertools import pairwise
from math import log2

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tracks.common.trials import itr_bits_per_min

classes = st.integers(2, 40)
trials = st.integers(1, 200)
seconds = st.floats(0.1, 60)


def test_all_right_transfers_log2_of_the_classes_each_trial():
    assert itr_bits_per_min(10, 10, 36, 1.8) == pytest.approx(60 / 1.8 * log2(36), rel=1e-15)


def test_known_value():
    bits = log2(3) + 0.75 * log2(0.75) + 0.25 * log2(0.125)
    assert itr_bits_per_min(3, 4, 3, 2) == pytest.approx(30 * bits, rel=1e-12)


@given(classes, trials, seconds)
def test_zero_at_chance_and_below(m, n, t):
    for right in range(n + 1):
        if right * m <= n:
            assert itr_bits_per_min(right, n, m, t) == 0


@given(classes, trials, seconds)
def test_grows_with_accuracy_above_chance(m, n, t):
    above = [itr_bits_per_min(right, n, m, t) for right in range(n + 1) if right * m > n]
    assert all(a < b for a, b in pairwise(above))
    assert all(value > 0 for value in above)


@given(classes, trials, seconds, seconds)
def test_falls_with_time(m, n, a, b):
    assume(a * 1.001 < b)
    assert itr_bits_per_min(n, n, m, a) > itr_bits_per_min(n, n, m, b)
