"""kill -9 of server and workers: each unit counts once, and the logs are those of a serial run."""

from pathlib import Path

import pytest

from scripts.season_faults import run_faults


@pytest.mark.slow
def test_each_unit_is_judged_once_whatever_is_killed(tmp_path: Path) -> None:
    report = run_faults(tmp_path, submissions=4, kills=3, seed=3)
    assert report.problems == []
    assert report.units == 8
    assert report.attempts >= 8
