"""A stall is told, but not at every packet."""

import pytest

from replay.stalls import LATE_S, Stalls


@pytest.mark.parametrize(
    ("late_s", "told"),
    [
        ([0.0, LATE_S, -1.0], []),
        ([3.6, 3.56, 3.52, 0.0], [3.6]),  # it slept, and what was due follows at once
        ([0.3, 0.34, 0.5, 0.61, 1.0, 1.3, 1.4], [0.3, 0.61, 1.3]),  # it can't keep the pace
        ([0.3, 0.2, 0.3], [0.3, 0.3]),
    ],
)
def test_a_stall_is_told_when_it_begins_and_when_it_has_doubled(late_s, told) -> None:
    stalls = Stalls()
    assert [each for each in late_s if stalls.to_be_told(each)] == told
