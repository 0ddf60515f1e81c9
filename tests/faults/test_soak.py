"""The short version of `make soak`: one contest of eight teams under random faults."""

import pytest

from scripts.soak import TEAMS, WARM_S, MemoryCurve, soak

pytestmark = pytest.mark.slow


@pytest.mark.lsl
@pytest.mark.timeout(400)
def test_eight_teams_under_faults_lose_nothing() -> None:
    trials = 3
    result = soak(1.0, seed=3, pace="3", trials=trials, fault_every_s=6.0)
    assert result.contests == 1
    assert result.trials == trials * len(TEAMS)
    assert sum(result.faults.values()) >= 1


def test_growth_is_that_of_the_last_quarter_over_the_first() -> None:
    curve = MemoryCurve(0.0, [(WARM_S + k, 100.0 + k) for k in range(40)])
    assert curve.growth_mb() == pytest.approx(30.0)
    assert MemoryCurve(0.0, [(WARM_S, 1.0)]).growth_mb() == 0.0
