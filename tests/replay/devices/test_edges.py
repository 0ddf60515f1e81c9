"""A held trigger line is one trigger, wherever the line is cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.devices.edges import Edges

LINE = st.lists(st.integers(0, 3), max_size=40)


def rises(line: list[int], cuts: list[int], hold: bool = True) -> list[tuple[int, int]]:
    edges, found = Edges(hold), []
    bounds = sorted({0, len(line), *(cut % (len(line) + 1) for cut in cuts)})
    for begin, end in pairwise(bounds):
        part = np.array(line[begin:end], dtype=np.int64)
        found += [(begin + offset, code) for offset, code in edges.step(part)]
    return found


@given(LINE, st.lists(st.integers(0, 100)), st.booleans())
def test_any_cut_gives_the_same_triggers(line, cuts, hold):
    assert rises(line, cuts, hold) == rises(line, [], hold)


@given(LINE)
def test_a_trigger_stands_where_the_line_rises_to_it(line):
    expected = [
        (i, code) for i, code in enumerate(line) if code and (i == 0 or line[i - 1] != code)
    ]
    assert rises(line, []) == expected


@given(LINE)
def test_without_hold_every_sample_counts(line):
    assert rises(line, [], hold=False) == [(i, code) for i, code in enumerate(line) if code]


@pytest.mark.parametrize("hold", [True, False])
def test_an_empty_piece_changes_nothing(hold):
    edges = Edges(hold)
    edges.step(np.array([5]))
    assert edges.step(np.array([], dtype=np.int64)) == ()
    assert bool(edges.step(np.array([5]))) is not hold
