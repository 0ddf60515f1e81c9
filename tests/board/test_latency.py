"""Percentiles from bins agree with percentiles from the values themselves."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.leaderboard.latency import RATIO, Latencies, elapsed


@given(
    st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=200),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_a_percentile_is_within_a_bin_of_the_exact_one(values: list[float], share: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    assert latencies.percentile(share) == pytest.approx(exact, rel=RATIO - 1)


def test_without_reports_there_is_no_percentile() -> None:
    assert Latencies().percentile(0.5) is None


@pytest.mark.parametrize("value", [None, True, "0.1", [0.1], math.nan, math.inf])
def test_an_elapsed_time_that_is_no_number_is_not_counted(value: object) -> None:
    assert elapsed({"kind": "report", "elapsed_s": value}) is None


def test_only_reports_have_a_latency() -> None:
    assert elapsed({"kind": "packet", "elapsed_s": 0.1}) is None
    assert elapsed({"kind": "report", "elapsed_s": 0.1}) == 0.1
