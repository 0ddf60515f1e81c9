"""Gaps are found by the package counter, over its wraps, and by time where it can't tell."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.devices.boards import COUNTERS, CounterRule, PackageCounter
from replay.devices.gaps import FoundGap, GapFinder, SampleRun

RATE = 250.0
RULES = [CounterRule(256), CounterRule(256, step=2), CounterRule(65536, samples=12)]


def board(rule: CounterRule, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Counter and stamp of n samples in a row."""
    index = np.arange(n)
    return (index // rule.samples * rule.step % rule.modulus).astype(float), index / RATE


def gaps(rule: CounterRule, kept: np.ndarray, n: int, cuts: list[int]) -> list[tuple[int, int]]:
    counts, stamps = board(rule, n)
    counts, stamps = counts[kept], stamps[kept]
    counter, finder = PackageCounter(rule), GapFinder(RATE, rule.cycle_samples)
    bounds = sorted({0, len(kept), *(cut % (len(kept) + 1) for cut in cuts)})
    pieces: list[FoundGap] = []
    for a, b in pairwise(bounds):
        none = np.zeros(b - a, dtype=np.int64)
        index = np.arange(a, b, dtype=np.float32)[:, None]
        pieces += finder.step(SampleRun(index, none, stamps[a:b], counter.step(counts[a:b])))
    pieces += finder.flush()
    return [(int(piece.samples[0, 0]), lost) for piece, lost in pieces if lost]


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50)
@given(st.integers(0, 80), st.integers(0, 2000), st.lists(st.integers(0, 4000)))
def test_any_gap_of_whole_packages_is_found_for_any_poll(rule, at, length, cuts):
    at, length = at * rule.samples, length // rule.samples * rule.samples
    n = at + length + 100 * rule.samples
    kept = np.concatenate([np.arange(at), np.arange(at + length, n)])
    expected = [(at, length)] if length and at else []
    assert gaps(rule, kept, n, cuts) == expected


def test_a_new_life_of_the_board_is_no_gap():
    counter = PackageCounter(CounterRule(256))
    counter.step(np.array([5.0, 6.0]))
    counter.restart()
    assert counter.step(np.array([100.0, 101.0])).tolist() == [0, 0]


def test_a_number_that_comes_twice_is_one_less_than_none():
    assert PackageCounter(CounterRule(256)).step(np.array([5.0, 5.0, 6.0])).tolist() == [0, -1, 0]


def test_the_boards_of_the_facts_have_their_rules():
    assert COUNTERS["SYNTHETIC_BOARD"] == COUNTERS["CYTON_BOARD"] == CounterRule(256)
    assert COUNTERS["CYTON_DAISY_BOARD"] == CounterRule(256, step=2)
    assert COUNTERS["MUSE_2_BOARD"].modulus == 65536
