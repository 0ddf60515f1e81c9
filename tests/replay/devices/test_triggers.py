"""Trigger codes: rising edges, late triggers, texts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.packet import Triggers
from replay.devices.chunk import Chunk
from replay.devices.triggers import MOST_WAITING, EdgeDetector, LateTriggers, TimedEdgeDetector

LINE = st.lists(st.integers(0, 3), max_size=40)


def rises(line: list[int], cuts: list[int], hold: bool = True) -> list[tuple[int, int]]:
    edges, found = EdgeDetector(hold), []
    bounds = sorted({0, len(line), *(cut % (len(line) + 1) for cut in cuts)})
    for begin, end in pairwise(bounds):
        part = np.array(line[begin:end], dtype=np.int64)
        found += [(begin + offset, code) for offset, code in edges.step(part)]
    return found


@given(LINE, st.lists(st.integers(0, 100)), st.booleans())
def test_any_cut_gives_the_same_triggers(line, cuts, hold):
    assert rises(line, cuts, hold) == rises(line, [], hold)


@given(LINE)
def test_a_trigger_is_where_the_line_rises_to_it(line):
    expected = [
        (i, code) for i, code in enumerate(line) if code and (i == 0 or line[i - 1] != code)
    ]
    assert rises(line, []) == expected


@given(LINE)
def test_without_hold_every_sample_counts(line):
    assert rises(line, [], hold=False) == [(i, code) for i, code in enumerate(line) if code]


@pytest.mark.parametrize("hold", [True, False])
def test_an_empty_piece_changes_nothing(hold):
    edges = EdgeDetector(hold)
    edges.step(np.array([5]))
    assert edges.step(np.array([], dtype=np.int64)) == ()
    assert bool(edges.step(np.array([5]))) is not hold


def timed(line: list[int], cuts: list[int], overlap: int = 0) -> list[tuple[float, int]]:
    """The triggers of a line that is sent in pieces, each repeating the end of the one before."""
    edges, found = TimedEdgeDetector(rest_ms=1), []
    bounds = sorted({0, len(line), *(cut % (len(line) + 1) for cut in cuts)})
    for begin, end in pairwise(bounds):
        begin = max(0, begin - overlap)
        found += edges.step(np.array(line[begin:end], dtype=np.int64), float(begin), 1.0)
    return found


@given(LINE, st.lists(st.integers(0, 100)), st.integers(0, 50))
def test_pieces_with_a_time_may_be_cut_and_repeated_as_they_like(line, cuts, overlap):
    assert timed(line, cuts, overlap) == rises(line, [])


@given(LINE)
def test_a_line_that_is_sent_only_where_it_is_not_0_has_the_same_triggers(line):
    edges, found = TimedEdgeDetector(rest_ms=1), []
    for ms, code in enumerate(line):
        if code:
            found += edges.step(np.array([code]), float(ms), 1.0)
    assert found == rises(line, [])


def test_a_line_that_is_sent_all_the_time_holds_its_code_over_a_gap():
    edges = TimedEdgeDetector()
    assert edges.step(np.array([0, 9]), 0.0, 1.0) == [(1.0, 9)]
    assert edges.step(np.array([9, 0]), 500.0, 1.0) == []


def chunk(n: int = 10, lost: int | None = 0) -> Chunk:
    return Chunk(np.zeros((n, 2), np.float32), (), lost)


def placed(late: LateTriggers, start_ms: float, lost: int | None = 0) -> list[Triggers]:
    return [each.triggers for each in late.add(chunk(lost=lost), start_ms, 1000)]


def test_a_trigger_that_comes_again_after_its_samples_left_is_still_the_same_one():
    late = LateTriggers(0, print)
    late.trigger(3, 51)
    assert placed(late, 0) == [((3, 51),)]
    late.trigger(3, 51)
    assert placed(late, 10) == [()]


def test_what_is_remembered_is_bounded():
    late = LateTriggers(0, print)
    for ms in range(3 * MOST_WAITING):
        late.trigger(ms, 7)
    assert len(late._seen) == MOST_WAITING


def test_a_growing_delay_is_reported_without_the_code():
    notes: list[str] = []
    late = LateTriggers(0, notes.append)
    for start_ms, late_ms in ((100, 5), (110, 5), (120, 3), (130, 8)):
        late.trigger(start_ms - late_ms, 4711)
        late.add(chunk(), start_ms, 1000)
    assert [note.split(" too late")[0] for note in notes] == [
        "a trigger came 5 ms",
        "a trigger came 8 ms",
    ]
    assert "4711" not in "".join(notes)


@pytest.mark.parametrize(("ms", "expected"), [(12, [((9, 5),)]), (88, [()])])
def test_a_trigger_in_a_gap_is_placed_on_the_nearest_sample(ms, expected):
    late = LateTriggers(50, print)
    assert placed(late, 0) == []
    late.trigger(ms, 5)
    assert placed(late, 90, lost=None) == expected
