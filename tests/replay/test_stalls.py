"""A stall is told, but not at every packet; and the pace learns nothing from it."""

import numpy as np
import pytest

from replay.realtime import FIRST_LEAD_S, adjusted_lead
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


def test_the_lead_of_a_wait_comes_to_rest_at_the_median_and_stalls_teach_nothing():
    costs = np.random.default_rng(1).exponential(12e-6, 4000)
    costs[::4] = 0.3
    lead_s = FIRST_LEAD_S
    leads = []
    for cost_s in costs:
        lead_s = adjusted_lead(lead_s, cost_s - lead_s)
        leads.append(lead_s)
    assert np.median(leads[1000:]) == pytest.approx(np.median(costs[costs < 0.1]), rel=0.1)
